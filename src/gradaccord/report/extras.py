"""What else a page shows: pictures and sentences that another command left beside the runs.

A folder may hold `extras.json`:

{"findings": ["..."], "sections": [{"title": "...", "sentences": ["..."],
 "pictures": [{"id": "...", "title": "...", "file": "some.png", "alt": "...", "caption": "...",
 "size": "wide"}],
 "tables": [{"id": "...", "title": "...", "headings": [], "rows": [], "caption": ""}]}]}

Findings stand in the place of the comparison's own. Pictures are PNG, their files named from the
folder, "wide" or "narrow". A cell is a text, a number,
or a text with the number that it is sorted by.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from gradaccord.report.figures import Figure
from gradaccord.report.svg import number
from gradaccord.report.tables import Cell, Table
from gradaccord.runs.files import read_json

EXTRAS = "extras.json"


@dataclass(frozen=True)
class Extra:
    """One more section."""

    title: str
    sentences: list[str]
    figures: list[Figure]
    tables: list[Table]


@dataclass(frozen=True)
class Extras:
    """All of them; nothing where there is no file."""

    findings: list[str] = field(default_factory=list)
    sections: list[Extra] = field(default_factory=list)


def read_extras(folder: Path) -> Extras:
    """What `extras.json` in a folder says."""
    path = folder / EXTRAS
    if not path.exists():
        return Extras()
    try:
        content = read_json(path)
        sections = [_section(folder, section) for section in content.get("sections", [])]
        return Extras([str(sentence) for sentence in content.get("findings", [])], sections)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{path} does not fit ({error}): run the command that wrote it again."
        ) from error


def _section(folder: Path, section: Mapping[str, Any]) -> Extra:
    return Extra(
        str(section["title"]),
        [str(sentence) for sentence in section.get("sentences", [])],
        [_figure(folder, picture) for picture in section.get("pictures", [])],
        [_table(table) for table in section.get("tables", [])],
    )


def _figure(folder: Path, picture: Mapping[str, Any]) -> Figure:
    inside = b64encode((folder / picture["file"]).read_bytes()).decode()
    alt = escape(str(picture["alt"]), quote=True)
    # Its own light background in both themes: what is drawn in black must stay readable.
    size = "wide" if picture.get("size") == "wide" else "narrow"
    image = f'<img class="{size}" alt="{alt}" src="data:image/png;base64,{inside}">'
    return Figure(str(picture["id"]), str(picture["title"]), image, str(picture.get("caption", "")))


def _table(table: Mapping[str, Any]) -> Table:
    rows = [[_cell(value) for value in row] for row in table["rows"]]
    return Table(
        str(table["id"]), str(table["title"]), list(table["headings"]), rows, table.get("caption", "")
    )


def _cell(value: Any) -> Cell:
    if isinstance(value, int | float):
        return Cell(number(value), float(value))
    if isinstance(value, list):
        return Cell(str(value[0]), float(value[1]))
    return Cell(str(value), str(value))
