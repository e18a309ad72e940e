"""Rows with named columns turned into examples of any kind: which column is which field, and checks."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as own
from functools import cached_property
from typing import Any

from gradaccord.core.did_you_mean import nearest
from gradaccord.data.examples import EXAMPLES, Answer, Example
from gradaccord.data.files.conll import checked
from gradaccord.data.files.labels import Classes, value
from gradaccord.data.files.layouts import Wanted
from gradaccord.data.files.squad import check_answer
from gradaccord.data.files.tables import Row
from gradaccord.data.files.text_files import File, at

Columns = Mapping[str, str | Sequence[str]]

# How files write yes and no.
TRUTH = Classes(("false", "true"), {"False": "false", "F": "false", "True": "true", "T": "true"})

IN_ORDER = "; name all in order if this is no header, such as columns: [label, first]"

# Names that such columns usually have, whatever their case; a field's own name comes first.
USUAL: Mapping[str, tuple[str, ...]] = {
    "first": (
        *("sentence", "text", "sentence1", "premise", "question1", "question", "review", "content"),
        *("comment", "tweet", "utterance", "body", "description"),
    ),
    "second": ("sentence2", "hypothesis", "question2", "passage"),
    "label": (
        *("labels", "gold_label", "score", "similarity", "is_duplicate", "class", "class index"),
        *("category", "sentiment", "intent", "rating", "stars", "polarity", "target"),
    ),
    "id": ("idx", "index", "guid", "uid"),
    "choices": ("choice1,choice2", "endings"),
    "words": ("tokens",),
    "tags": ("ner_tags", "labels"),
    "text": ("document", "article", "sentence"),
    "summaries": ("summary", "highlights", "headline", "title"),
    "answers": ("answer",),
    "starts": ("answer_starts", "answer_start"),
    "first_span": ("start1,end1",),
    "second_span": ("start2,end2",),
}


@dataclass(frozen=True)
class Reader:
    """Makes examples of one kind out of rows.

    columns: of fields that are not called by a usual name; several, as a list or with commas between,
    are read as a list (choices, or a span's start and end), or joined by a space (texts).
    labels: classes, or entity types. written: how the rows write each class, as a name -> the class;
    then they are written so, or by their names.
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
        return self.fields.kinds[self.kind]

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
            usual = (called.get(name, name) for name in (field, *USUAL.get(field, ())))
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
        if not rows:
            raise ValueError(f"{file} holds no row.")
        places = self.places([*rows[0][1]], at(file, 1), wanted.split)
        return [self.example(row, places, file, line, wanted) for line, row in rows]

    def example(
        self,
        row: Mapping[str, Any],
        places: Mapping[str, list[str]],
        file: File | str,
        line: int,
        wanted: Wanted,
    ) -> Any:
        """One row as an example; a text that it needs and that is missing is an error."""
        values = {field: cell_of(row, columns, at(file, line)) for field, columns in places.items()}
        return self.fields.read(Cells(self, values, places, file, line, wanted))


@dataclass(frozen=True)
class Cells:
    """What stands in one row, by field; a value that does not fit is an error with the row's place."""

    reader: Reader
    values: Mapping[str, Any]
    places: Mapping[str, list[str]]
    file: File | str
    line: int
    wanted: Wanted

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
            return _text(cell, columns, self.where)
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
        if field not in self.reader.fields.needed:
            cell = cell or ()
        return tuple(_texts(cell, field, self.file, self.line))

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
        if self.reader.answer == "number":
            return value(cell, self.file, self.line)
        if self.reader.answer == "choice":
            return _whole(cell, self.file, self.line)
        return self.reader.classes.number(cell, self.file, self.line)

    def span(self, field: str, text: str) -> tuple[int, int]:
        """Start and end, in characters of the text."""
        cells = _list(self.values[field], field, self.file, self.line)
        numbers = [_whole(part, self.file, self.line) for part in cells]
        if len(numbers) != 2 or not 0 <= numbers[0] < numbers[1] <= len(text):
            raise ValueError(
                f"{self.where}: {numbers} is not a start and an end in a text of {len(text)}."
            )
        return numbers[0], numbers[1]

    def answers(self, context: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Answers and where each starts in the context; starts that are not given are searched."""
        found = self.values.get("answers"), self.values.get("starts")
        texts, starts = _answers(*found, self.file, self.line)
        if not starts and texts:
            starts = [context.find(text) for text in texts]
        if len(starts) != len(texts):
            raise ValueError(f"{self.where}: {len(texts)} answers and {len(starts)} starts.")
        for text, start in zip(texts, starts, strict=True):
            check_answer(context, text, start, self.where, self.id)
        return tuple(texts), tuple(starts)

    def tags(self, words: Sequence[str]) -> tuple[str, ...]:
        """IOB2 tags of the words; empty: not labelled."""
        tags = self.texts("tags")
        if tags and len(tags) != len(words):
            raise ValueError(f"{self.where}: {len(words)} words and {len(tags)} tags.")
        return tuple(checked(tags, self.reader.labels, self.wanted, lambda _: self.where))


def no_labels(kind: str) -> str:
    """The sentence about `labels` of a kind without named classes."""
    truth = kind in EXAMPLES and EXAMPLES[kind].kinds[kind] == "truth"
    yes_or_no = " (its labels are false and true)" if truth else ""
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


def cell_of(row: Mapping[str, Any], columns: Sequence[str], where: str) -> Any:
    """What stands in a column, or in several as a list; dots go into objects. NaN is None: missing."""
    found = []
    for column in columns:
        cell: Any = row
        for part in [column] if column in row else column.split("."):
            if not isinstance(cell, Mapping) or part not in cell:
                raise ValueError(f"{where}: there is no field {column!r}.")
            cell = cell[part]
        found.append(_known(cell))
    return found[0] if len(found) == 1 else found


def _known(cell: Any) -> Any:
    return None if isinstance(cell, float) and math.isnan(cell) else cell


def _text(cell: Any, columns: Sequence[str], where: str) -> str:
    """A text as it is, or a number as it is written."""
    cell, name = _known(cell), ",".join(columns)
    if cell is None:
        raise ValueError(f"{where}: {name!r} is missing: give a text, or leave the row out.")
    if not isinstance(cell, str | int | float) or isinstance(cell, bool):
        raise ValueError(f"{where}: {name!r} is of the type {type(cell).__name__}: give a text.")
    return str(cell)


def _texts(cell: Any, field: str, file: File | str, line: int) -> list[str]:
    return [_text(each, [field], at(file, line)) for each in _list(cell, field, file, line)]


def _list(cell: Any, field: str, file: File | str, line: int) -> list[Any]:
    """A list: as it is, or written in JSON, or words with spaces between."""
    if isinstance(cell, str):
        if cell.lstrip().startswith("["):
            try:
                cell = json.loads(cell)
            except json.JSONDecodeError as error:
                raise ValueError(f"{at(file, line)}: not a JSON list ({error.msg}).") from error
        else:
            cell = cell.split()
    if not isinstance(cell, list | tuple):
        found = "missing" if cell is None else f"of the type {type(cell).__name__}"
        raise ValueError(f"{at(file, line)}: {field!r} is {found}: give a list.")
    return list(cell)


def _whole(cell: Any, file: File | str, line: int) -> int:
    number = value(cell, file, line)
    if not number.is_integer():
        raise ValueError(f"{at(file, line)}: the value {repr(cell)[:60]} is not a whole number.")
    return int(number)


def _answers(cell: Any, starts: Any, file: File | str, line: int) -> tuple[list[str], list[int]]:
    """Answers as a text, texts, SQuAD's objects, or the two lists of Hugging Face."""
    if isinstance(cell, str) and cell.lstrip().startswith(("[", "{")):
        try:
            cell = json.loads(cell)
        except json.JSONDecodeError as error:
            raise ValueError(f"{at(file, line)}: not JSON ({error.msg}).") from error
    if isinstance(cell, Mapping):
        cell, starts = cell.get("text", ()), cell.get("answer_start", ())
    if cell is None or cell == "":
        return [], []
    several: list[Any] = [cell] if isinstance(cell, str) else _list(cell, "answers", file, line)
    if several and isinstance(several[0], Mapping):
        starts = [each.get("answer_start") for each in several]
        several = [each.get("text") for each in several]
    texts = _texts(several, "answers", file, line)
    if starts is None or starts == "":
        return texts, []
    numbers = starts if isinstance(starts, list | tuple) else [starts]
    return texts, [_whole(number, file, line) for number in numbers]
