"""What a page is made of: sections with sentences, tables and figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from gradaccord.compare.statistics import Mean

NONE = "–"
LONG = 20  # rows; longer tables are folded


@dataclass(frozen=True)
class Cell:
    """What is shown, and what it is sorted by: a number, its text, or None."""

    text: str
    sort: float | str | None = None


@dataclass(frozen=True)
class Table:
    """A table. The first cell of a row names the row."""

    id: str
    title: str
    headings: list[str]
    rows: list[list[Cell]]
    caption: str = ""
    one_of_many: bool = False

    @property
    def folded(self) -> bool:
        """Whether it is folded until a click, so that readers find what follows."""
        return self.one_of_many or len(self.rows) > LONG

    @property
    def numbers(self) -> list[bool]:
        """Which columns hold only numbers."""
        return [
            all(isinstance(cell.sort, float) or cell.text == NONE for cell in column)
            for column in zip(*self.rows, strict=True)
        ]


@dataclass(frozen=True)
class Figure:
    """A picture with its heading and what to look for; without data, `svg` is empty."""

    id: str
    title: str
    svg: str
    caption: str


@dataclass(frozen=True)
class Section:
    """A heading with what stands below it; one without content is left out."""

    title: str
    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    texts: dict[str, str] = field(default_factory=dict)  # what is folded away, by its heading
    legend: str = ""  # HTML, of all its figures

    def __bool__(self) -> bool:
        return bool(self.sentences or self.tables or self.figures or self.texts)


def named(name: str) -> Cell:
    """A cell that is sorted by its text."""
    return Cell(name, name)


def mean_cell(mean: Mean, digits: int = 2) -> Cell:
    """A mean ± its error, sorted by the mean."""
    return Cell(mean.text(digits), mean.mean) if mean.count else Cell(NONE)


def number_cell(value: float | None, form: str) -> Cell:
    """A number in a format such as "{:.2f}"; a dash where it is unknown."""
    if value is None or not math.isfinite(value):
        return Cell(NONE)
    return Cell(form.format(value), float(value))


def drawn(figures: Sequence[Figure]) -> list[Figure]:
    """The figures that have data."""
    return [figure for figure in figures if figure.svg]
