"""The file `extras.json` beside runs: more sections of their report, e.g. those of `demo`."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, Field

from gradaccord.report.section import Figure, Section, Table
from gradaccord.runs.versioned import Versioned

SIGNATURE = b"\x89PNG\r\n\x1a\n"


class Picture(BaseModel):
    """A PNG file, named from the folder."""

    id: str
    title: str
    file: str
    alt: str
    caption: str = ""
    wide: bool = False

    def figure(self, folder: Path) -> Figure:
        """The figure, with the file embedded; its light background keeps it readable in both themes."""
        content = b64encode(self._content(folder)).decode()
        size, alt = "wide" if self.wide else "narrow", escape(self.alt, quote=True)
        image = f'<img class="{size}" alt="{alt}" src="data:image/png;base64,{content}">'
        return Figure(self.id, self.title, image, self.caption)

    def _content(self, folder: Path) -> bytes:
        """The picture's bytes; only from inside the folder, since the page may be shared."""
        path = (folder / self.file.replace("\0", "")).resolve()
        if "\0" not in self.file and path.is_relative_to(folder.resolve()) and path.is_file():
            content = path.read_bytes()
            if content.startswith(SIGNATURE):
                return content
        raise ValueError(
            f"{folder / Extras.FILE} names the picture {self.file!r}, which is not a PNG inside its "
            "folder: repeat the command that wrote it."
        )


class ExtraSection(BaseModel):
    """One more section."""

    title: str
    sentences: list[str] = Field(default_factory=list)
    pictures: list[Picture] = Field(default_factory=list)
    tables: list[Table] = Field(default_factory=list)

    def section(self, folder: Path) -> Section:
        """As the page shows it."""
        figures = [picture.figure(folder) for picture in self.pictures]
        return Section(self.title, self.sentences, self.tables, figures)


class Extras(Versioned):
    """All extra sections. findings: shown below the comparison's own."""

    FILE: ClassVar[str] = "extras.json"

    findings: list[str] = Field(default_factory=list)
    sections: list[ExtraSection] = Field(default_factory=list)


def read_extras(folder: Path) -> Extras:
    """What a command left in a folder; empty where there is nothing."""
    return Extras.read(folder) if Extras.exists(folder) else Extras()
