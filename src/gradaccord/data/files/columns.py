"""Rows with named columns turned into examples of any kind: which column is which field, and checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as own
from functools import cached_property
from typing import Any

from gradaccord.core.did_you_mean import nearest
from gradaccord.data.examples import EXAMPLES, Answer, Example, answer_of
from gradaccord.data.files.bad_files import reading
from gradaccord.data.files.cells import Cells, whole, without_nan
from gradaccord.data.files.labels import Classes, value
from gradaccord.data.files.layouts import Wanted
from gradaccord.data.files.tables import AtByte, Row, Rows
from gradaccord.data.files.text_files import File, at

Columns = Mapping[str, str | Sequence[str]]

# How files write yes and no.
TRUTH = Classes(("false", "true"), {"False": "false", "F": "false", "True": "true", "T": "true"})

IN_ORDER = "; name all in order if this is no header, such as columns: [label, first]"


def text_first(columns: Columns) -> Columns:
    """With the field "first" under its own name."""
    return {"first" if field == "text" else field: names for field, names in columns.items()}


@dataclass(frozen=True)
class Reader:
    """Makes examples of one kind from rows.

    columns: of fields whose column has no usual name; several, as a list or separated by commas, are
    read as a list (choices, or a span's start and end), or joined by a space (texts). "text" is
    another name of the field "first", if no field is called "text".
    labels: classes, or entity types. written: what the rows write -> the class; rows may
    also write the class's own name.
    """

    kind: str
    columns: Columns
    labels: tuple[str, ...] = ()
    written: Mapping[str, str] = own(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in EXAMPLES:
            hint = nearest(self.kind, EXAMPLES, "use one of")
            raise ValueError(f"`kind` is {self.kind!r}, which rows cannot be read as: {hint}")
        if self.labels and not self.has_names:
            raise ValueError(no_labels(self.kind))
        known = [*self.fields.needed, *self.fields.optional]
        if "text" not in known:
            object.__setattr__(self, "columns", text_first(self.columns))
        for field in self.columns:
            if field not in known:
                raise ValueError(
                    f"`columns` names the field {field!r}, which {self.kind} does not have: its fields "
                    f"are {', '.join(known)}."
                )

    @property
    def fields(self) -> type[Example]:
        """The class of the examples, which knows their fields."""
        return EXAMPLES[self.kind]

    @property
    def answer(self) -> Answer:
        """What the answer of an example is."""
        return answer_of(self.kind)

    @property
    def has_names(self) -> bool:
        """Whether the kind's classes or entity types have names."""
        return self.answer in ("class", "types")

    @cached_property
    def classes(self) -> Classes:
        """How a cell becomes the number of a class, or of true and false."""
        if self.answer == "truth":
            return TRUTH
        return Classes(self.labels, self.written, by_number=not self.written)

    def fits(self, names: Sequence[str]) -> bool:
        """Whether columns of these names hold all that a question needs."""
        try:
            return all(self.places(names, "", "test").get(field) for field in self.fields.needed)
        except ValueError:
            return False

    def places(self, names: Sequence[str], where: str, split: str) -> dict[str, list[str]]:
        """The columns of each field among those there are; one that is needed and missing is an error.

        where: how the error begins.
        """
        needed, required = self.fields.needed, self.fields.targets[:1]
        found: dict[str, list[str]] = {}
        called = {name.casefold(): name for name in reversed(names) if isinstance(name, str)}
        for field in (*needed, *self.fields.optional):
            given = self.columns.get(field)
            usual = (called.get(name, name) for name in (field, *self.fields.usual.get(field, ())))
            tried = [given] if given is not None else [*usual]
            for wish in tried:
                columns = several(wish, names)
                taken = given is None and any(columns == other for other in found.values())
                if has(wish, names) and not taken:
                    found[field] = columns
                    break
            else:
                target = field in required and split == "train"
                if given is not None and (target or field not in required):
                    raise ValueError(no_column(f"{given!r}", names, where))
                if field in needed or target:
                    wished = f"{field!r}, nor another for it in `columns`"
                    raise ValueError(no_column(wished, names, where, IN_ORDER))
        return found

    def examples(self, rows: Sequence[Row], file: File, wanted: Wanted) -> list[Any]:
        """The examples of one file's rows."""
        return list(self.each(Rows(lambda _: rows), file, wanted))

    def each(
        self, rows: Rows, file: File, wanted: Wanted, at_byte: AtByte = lambda place: None
    ) -> Iterator[Any]:
        """The same one by one, as the rows are read."""
        if rows.first is None:
            raise ValueError(f"{file} holds no row.")
        places = self.places(rows.names, at(file, 1), wanted.split)
        with reading(file), rows.each(at_byte) as each:
            for line, row in each:
                yield self.example(row, places, file, line, wanted)

    def example(
        self,
        row: Mapping[str, Any],
        places: Mapping[str, list[str]],
        file: File | str,
        line: int,
        wanted: Wanted,
    ) -> Any:
        """One row as an example; a text that it needs and that is missing is an error."""
        values = {field: cell_of(row, columns, file, line) for field, columns in places.items()}
        needed = self.fields.needed
        return self.fields.read(
            Cells(values, places, file, line, wanted, needed, self.labels, self.label_of)
        )

    def label_of(self, cell: Any, file: File | str, line: int) -> Any:
        """What the cell of a label says: a number, that of a choice or class, or 0 or 1 of a truth."""
        if self.answer == "number":
            return value(cell, file, line)
        if self.answer == "choice":
            return whole(cell, file, line)
        return self.classes.number(cell, file, line)


def no_labels(kind: str) -> str:
    """The sentence about `labels` of a kind without named classes."""
    yes_or_no = " (its labels are false and true)" if answer_of(kind) == "truth" else ""
    return f"`labels` name classes, which a {kind} task does not have{yes_or_no}: leave them out."


def several(wish: str | Sequence[str], names: Sequence[str] = ()) -> list[str]:
    """The columns that are meant; one whose own name has a comma must be among the names."""
    if not isinstance(wish, str):
        return [str(column) for column in wish]
    return [wish] if wish in names or "," not in wish else [part.strip() for part in wish.split(",")]


def has(wish: str | Sequence[str], names: Sequence[str]) -> bool:
    """Whether a column, or all of several, are among the names."""
    columns = several(wish, names)
    return all(column in names or column.partition(".")[0] in names for column in columns)


def no_column(wished: str, names: Sequence[str], where: str, remedy: str = "") -> str:
    """The sentence about a column that is not there."""
    return f"{where}: there is no column {wished}; the columns are: {', '.join(names)}{remedy}."


def cell_of(row: Mapping[str, Any], columns: Sequence[str], file: File | str, line: int) -> Any:
    """The value of a column, or of several as a list; dots go into objects. NaN is None: missing."""
    if len(columns) == 1 and columns[0] in row:
        return without_nan(row[columns[0]])
    found = []
    for column in columns:
        cell: Any = row
        for part in [column] if column in row else column.split("."):
            if not isinstance(cell, Mapping) or part not in cell:
                raise ValueError(f"{at(file, line)}: there is no field {column!r}.")
            cell = cell[part]
        found.append(without_nan(cell))
    return found[0] if len(found) == 1 else found
