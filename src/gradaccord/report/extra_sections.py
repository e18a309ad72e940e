"""Sections that another command leaves for the page of its runs, in `extras.json` beside them."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from pathlib import Path

from pydantic import BaseModel, ValidationError

from gradaccord.report.figures import Figure
from gradaccord.report.html import Section
from gradaccord.report.svg import number
from gradaccord.report.tables import Cell, Table
from gradaccord.runs.files import read_json, write_json

FILE = "extras.json"


class Picture(BaseModel):
    """A PNG file, named from the folder."""

    id: str
    title: str
    file: str
    alt: str
    caption: str = ""
    size: str = "narrow"  # or "wide"

    def figure(self, folder: Path) -> Figure:
        """With the file inside; its own light background keeps black lines readable in both themes."""
        content = b64encode((folder / self.file).read_bytes()).decode()
        size = "wide" if self.size == "wide" else "narrow"
        alt = escape(self.alt, quote=True)
        image = f'<img class="{size}" alt="{alt}" src="data:image/png;base64,{content}">'
        return Figure(self.id, self.title, image, self.caption)


class ExtraTable(BaseModel):
    """A cell is a text, a number, or a text with the number that it is sorted by."""

    id: str
    title: str
    headings: list[str]
    rows: list[list[float | str | tuple[str, float]]]
    caption: str = ""

    def table(self) -> Table:
        """As the page shows it."""
        rows = [[_cell(value) for value in row] for row in self.rows]
        return Table(self.id, self.title, self.headings, rows, self.caption)


class ExtraSection(BaseModel):
    """One more section."""

    title: str
    sentences: list[str] = []
    pictures: list[Picture] = []
    tables: list[ExtraTable] = []

    def section(self, folder: Path) -> Section:
        """As the page shows it."""
        figures = [picture.figure(folder) for picture in self.pictures]
        return Section(self.title, self.sentences, [own.table() for own in self.tables], figures)


class Extras(BaseModel):
    """All extra sections. findings: shown instead of the comparison's own."""

    findings: list[str] = []
    sections: list[ExtraSection] = []

    def write(self, folder: Path) -> None:
        """Leave them for the page."""
        write_json(folder / FILE, self.model_dump(mode="json"))


def read_extras(folder: Path) -> Extras:
    """What a command left in a folder; empty where there is nothing."""
    path = folder / FILE
    if not path.exists():
        return Extras()
    try:
        return Extras.model_validate(read_json(path))
    except (ValidationError, ValueError) as error:
        problem = str(error).splitlines()[0]
        raise ValueError(
            f"{path} cannot be read ({problem}): run the command that wrote it again."
        ) from error


def _cell(value: float | str | tuple[str, float]) -> Cell:
    if isinstance(value, tuple):
        return Cell(*value)
    return Cell(value, value) if isinstance(value, str) else Cell(number(value), float(value))
