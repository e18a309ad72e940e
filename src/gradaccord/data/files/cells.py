"""The cells of one row, as an example reads them: texts, lists, spans, labels."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradaccord.data.files.labels import value
from gradaccord.data.files.layouts import Wanted
from gradaccord.data.files.text_files import File, at


@dataclass(frozen=True)
class Cells:
    """The values of one row, by field; a value that does not fit is an error with the row's place.

    needed: the fields that must be there. labels: classes, or entity types.
    label_of: what the cell of a label, in a file at a line, says.
    """

    values: Mapping[str, Any]
    places: Mapping[str, list[str]]
    file: File | str
    line: int
    wanted: Wanted
    needed: tuple[str, ...]
    labels: tuple[str, ...]
    label_of: Callable[[Any, File | str, int], Any]

    @property
    def where(self) -> str:
        """The row's place, as errors begin."""
        return at(self.file, self.line)

    @property
    def id(self) -> str:
        """The row's own, or the split and the line."""
        given = self.values.get("id")
        return f"{self.wanted.split}-{self.line}" if given in (None, "") else str(given)

    @property
    def language(self) -> str:
        """The row's own, or the data set's; English if neither is known."""
        return str(self.values.get("language") or self.wanted.language or "en")

    def text(self, field: str) -> str:
        """A text that must be there; of several columns, joined."""
        cell, columns = self.values[field], self.places[field]
        if len(columns) == 1:
            return cell if type(cell) is str else _text(cell, columns, self.where)
        parts = [_text(part, [name], self.where) for part, name in zip(cell, columns, strict=True)]
        return " ".join(part.strip() for part in parts if part.strip())

    def optional_text(self, field: str) -> str | None:
        """A text that may be missing."""
        return None if self.values.get(field) is None else self.text(field)

    def texts(self, field: str, *, one_text: bool = False) -> tuple[str, ...]:
        """A list of texts, empty if it may be missing and is. one_text: a text is a list of one."""
        cell = self.values.get(field)
        if one_text and isinstance(cell, str):
            return (cell,)
        if field not in self.needed:
            cell = cell or ()
        return self.as_texts(cell, field)

    @property
    def label(self) -> Any:
        """The number of a class or of a choice, 0 or 1 of a truth, or a value; None: not labelled."""
        cell = self.values.get("label")
        if "label" not in self.values:
            return None
        if cell is None or cell == "" or (cell == -1 and self.wanted.split != "train"):
            if self.wanted.split == "train":
                raise ValueError(f"{self.where}: the label is missing, and this is a train split.")
            return None
        return self.label_of(cell, self.file, self.line)

    def span(self, field: str, text: str) -> tuple[int, int]:
        """Start and end, in characters of the text."""
        numbers = [self.whole(part) for part in self.as_list(self.values[field], field)]
        if len(numbers) != 2 or not 0 <= numbers[0] < numbers[1] <= len(text):
            raise ValueError(
                f"{self.where}: {numbers} is not a start and an end in a text of {len(text)}."
            )
        return numbers[0], numbers[1]

    def as_texts(self, cell: Any, field: str) -> tuple[str, ...]:
        """A cell that holds a list of texts."""
        return tuple(_text(each, [field], self.where) for each in self.as_list(cell, field))

    def as_list(self, cell: Any, field: str) -> list[Any]:
        """A list: as it is, or written in JSON, or words with spaces between."""
        if isinstance(cell, str):
            cell = self.parsed(cell, "a JSON list") if cell.lstrip().startswith("[") else cell.split()
        if not isinstance(cell, list | tuple):
            found = "missing" if cell is None else f"of the type {type(cell).__name__}"
            raise ValueError(f"{self.where}: {field!r} is {found}: give a list.")
        return list(cell)

    def parsed(self, cell: str, what: str = "JSON") -> Any:
        """A cell that is written in JSON."""
        try:
            return json.loads(cell)
        except json.JSONDecodeError as error:
            raise ValueError(f"{self.where}: not {what} ({error.msg}).") from error

    def whole(self, cell: Any) -> int:
        """A whole number."""
        return whole(cell, self.file, self.line)


def whole(cell: Any, file: File | str, line: int) -> int:
    """A cell that holds a whole number."""
    number = value(cell, file, line)
    if not number.is_integer():
        raise ValueError(f"{at(file, line)}: the value {repr(cell)[:60]} is not a whole number.")
    return int(number)


def without_nan(cell: Any) -> Any:
    """None where nothing is known: NaN."""
    return None if isinstance(cell, float) and math.isnan(cell) else cell


def _text(cell: Any, columns: Sequence[str], where: str) -> str:
    """A text as it is, or a number as it is written."""
    cell, name = without_nan(cell), ",".join(columns)
    if cell is None:
        raise ValueError(f"{where}: {name!r} is missing: give a text, or leave the row out.")
    if not isinstance(cell, str | int | float) or isinstance(cell, bool):
        raise ValueError(f"{where}: {name!r} is of the type {type(cell).__name__}: give a text.")
    return str(cell)
