"""A report as a test sees it: elements, tables and figures, read by the standard HTML parser."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser

HOSTILE = "</script><script>hurt()</script><img src=x onerror=hurt()>"
VOID = {"meta", "br", "link", "img", "input", "hr", "wbr"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    parent: Element | None = None
    children: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces).strip()

    def below(self, tag: str) -> list[Element]:
        found = []
        for child in self.children:
            found += [child] if child.tag == tag else []
            found += child.below(tag)
        return found


class Page(HTMLParser):
    """Parsed; raises where tags do not close in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self.place = Element("page", {})
        self.all: list[Element] = []

    @classmethod
    def of(cls, text: str) -> Page:
        page = cls()
        page.feed(text)
        page.close()
        assert page.place is page.root, f"<{page.place.tag}> stays open"
        return page

    def handle_starttag(self, tag, attributes):
        element = Element(tag, {name: value or "" for name, value in attributes}, self.place)
        self.place.children.append(element)
        self.all.append(element)
        if tag not in VOID:
            self.place = element

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert tag == self.place.tag, f"</{tag}> closes <{self.place.tag}>"
        self.place = self.place.parent

    def handle_data(self, data):
        place = self.place
        while place is not None:
            place.pieces.append(data)
            place = place.parent

    def table(self, name: str) -> list[list[str]]:
        """Rows of texts, the headings first."""
        (found,) = [e for e in self.all if e.attributes.get("data-table") == name]
        return [[cell.text for cell in row.children] for row in found.below("tr")]

    @property
    def tables(self) -> list[str]:
        return [e.attributes["data-table"] for e in self.all if e.tag == "table"]

    @property
    def figures(self) -> list[str]:
        return [e.attributes["id"] for e in self.all if e.tag == "figure"]

    @property
    def headings(self) -> list[str]:
        return [e.text for e in self.all if e.tag in ("h1", "h2", "h3")]


def results_of(folder, method, seed):
    """results.json of a run of a comparison."""
    return json.loads((folder / method / f"seed-{seed}" / "results.json").read_text())
