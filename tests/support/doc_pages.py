"""The pages of README and docs/: their blocks of code, and how those of a page are run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md"), ROOT / "CONTRIBUTING.md"])
FENCE = re.compile(r"^( *)```(\w+)?([^\n]*)\n(.*?)^\1```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A block of code: where it begins, its language, its title (the name of a file) and its text."""

    page: Path
    line: int
    language: str
    title: str
    text: str

    def run(self, names: dict[str, Any]) -> None:
        """Run it as Python; errors show the page and the line."""
        placed = "\n" * self.line + self.text
        exec(compile(placed, str(self.page.relative_to(ROOT)), "exec"), names)


def blocks(page: Path, language: str | None = None) -> list[Block]:
    """The blocks of a page, of one language or of all."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', match[3])
        line = text.count("\n", 0, match.start()) + 1
        lines = match[4].splitlines(keepends=True)
        body = "".join(one.removeprefix(match[1]) for one in lines)
        found.append(Block(page, line, match[2] or "", title[1] if title else "", body))
    return [block for block in found if language in (None, block.language)]


def run_page(page: Path, folder: Path, names: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write the files that the page shows, run its Python in one namespace, and return that.

    names: what the page takes for granted.
    """
    for block in blocks(page):
        if block.language != "python" and re.fullmatch(r"[\w-]+\.\w+", block.title):
            (folder / block.title).write_text(block.text, encoding="utf-8")
    namespace = {"__name__": "__main__", **(names or {})}
    before = Path.cwd()
    os.chdir(folder)
    try:
        for block in blocks(page, "python"):
            block.run(namespace)
    finally:
        os.chdir(before)
    return namespace


def name_of(page: Path) -> str:
    """How tests call a page."""
    return page.relative_to(ROOT).as_posix()
