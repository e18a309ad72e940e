"""Rows with named columns turned into examples of any kind: which column is which field, and checks."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from gradaccord.data.examples import (
    Candidate,
    Choices,
    Cloze,
    Coreference,
    Document,
    Line,
    Question,
    Tagged,
    Text,
    WordPair,
)
from gradaccord.data.files.conll import MENDED, impossible
from gradaccord.data.files.labels import Classes, value
from gradaccord.data.files.layouts import Wanted
from gradaccord.data.files.squad import check_answer
from gradaccord.data.files.text_files import File, at

Columns = Mapping[str, str | Sequence[str]]

# The fields of each kind: needed, and those that may be missing.
FIELDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "classification": (("first",), ("second", "label", "id")),
    "regression": (("first",), ("second", "label", "id")),
    "multiple_choice": (("premise", "choices"), ("question", "label", "id")),
    "multi_answer": (("passage", "question", "answer"), ("label", "group", "id")),
    "cloze": (("passage", "query", "entities"), ("answers", "id")),
    "word_in_context": (("first", "second", "first_span", "second_span"), ("label", "id")),
    "coreference": (("text", "noun_span", "pronoun_span"), ("label", "id")),
    "question_answering": (("question", "context"), ("answers", "starts", "language", "id")),
    "tagging": (("words",), ("tags", "id")),
    "summarization": (("text",), ("summaries", "id")),
    "masked_lm": (("text",), ("id",)),
}
TARGETS = frozenset({"label", "answers", "tags", "summaries"})
TEXTS = frozenset(
    {"first", "second", "premise", "question", "passage", "answer", "query", "context", "text"}
)
WITH_LABELS = ("classification", "tagging")  # kinds whose classes or entity types have names

# The kinds that ask yes or no, and how files write their labels.
YES_OR_NO = ("multi_answer", "word_in_context", "coreference")
TRUTH = Classes(("false", "true"), {"False": "false", "F": "false", "True": "true", "T": "true"})

# Names that such columns usually have; a field's own name comes first.
USUAL: Mapping[str, tuple[str, ...]] = {
    "first": ("sentence", "text", "sentence1", "premise", "question1", "question"),
    "second": ("sentence2", "hypothesis", "question2", "passage"),
    "label": ("labels", "gold_label", "score", "similarity", "is_duplicate"),
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
    are read as a list (choices, or a span's start and end). labels: classes, or entity types.
    """

    kind: str
    columns: Columns
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in FIELDS:
            near = get_close_matches(self.kind, FIELDS, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(FIELDS)}."
            raise ValueError(f"`kind` is {self.kind!r}, which rows cannot be read as: {hint}")
        if self.labels and self.kind not in WITH_LABELS:
            raise ValueError(no_labels(self.kind))
        known = [name for part in FIELDS[self.kind] for name in part]
        for field in self.columns:
            if field not in known:
                raise ValueError(
                    f"`columns` names the field {field!r}, which {self.kind} does not have: its fields "
                    f"are {', '.join(known)}."
                )

    def places(self, names: Sequence[str], where: str, split: str) -> dict[str, list[str]]:
        """The columns of each field among those there are; one that is needed and missing is an error.

        where: how the error begins.
        """
        needed, optional = FIELDS[self.kind]
        found: dict[str, list[str]] = {}
        for field in (*needed, *optional):
            given = self.columns.get(field)
            tried = [given] if given is not None else [field, *USUAL.get(field, ())]
            for wish in tried:
                several = _several(wish, names)
                taken = given is None and any(several == other for other in found.values())
                if has(wish, names) and not taken:
                    found[field] = several
                    break
            else:
                target = field in TARGETS and split == "train"
                if given is not None and not (field in TARGETS and not target):
                    raise ValueError(no_column(f"{given!r}", names, where))
                if field in needed or target:
                    raise ValueError(
                        no_column(f"{field!r}, nor another for it in `columns`", names, where)
                    )
        return found

    def example(
        self,
        row: Mapping[str, Any],
        places: Mapping[str, list[str]],
        file: File | str,
        line: int,
        wanted: Wanted,
    ) -> Any:
        """One row as an example; a text that it needs and that is missing is an error."""
        cells = {field: cell_of(row, columns, at(file, line)) for field, columns in places.items()}
        for field in TEXTS & cells.keys():
            if cells[field] is not None or field in FIELDS[self.kind][0]:
                cells[field] = _text(cells[field], places[field], at(file, line))
        id = str(cells.pop("id", None) or f"{wanted.split}-{line}")
        if "label" in places:
            cells["label"] = self._label(cells["label"], file, line, wanted)
        return getattr(self, f"_{self.kind}")(cells, id, file, line, wanted)

    def _label(self, cell: Any, file: File | str, line: int, wanted: Wanted) -> int | float | None:
        if cell is None or cell == "" or (cell == -1 and wanted.split != "train"):
            if wanted.split == "train":
                raise ValueError(f"{at(file, line)}: the label is missing, and this is a train split.")
            return None
        if self.kind == "regression":
            return value(cell, file, line)
        if self.kind in YES_OR_NO:
            return TRUTH.number(cell, file, line)
        if self.kind == "multiple_choice":
            return _whole(cell, file, line)
        return Classes(self.labels).number(cell, file, line)

    def _classification(self, cells: Any, id: str, file: Any, line: int, wanted: Wanted) -> Text:
        second = cells.get("second")
        second = None if second is None else second.strip()
        return Text(cells["first"].strip(), second, cells.get("label"), id)

    _regression = _classification

    def _multiple_choice(self, cells: Any, id: str, file: Any, line: int, wanted: Wanted) -> Choices:
        choices = tuple(text.strip() for text in _texts(cells["choices"], "choices", file, line))
        label = cells.get("label")
        if label is not None and not 0 <= label < len(choices):
            raise ValueError(
                f"{at(file, line)}: the label {label} is not one of 0..{len(choices) - 1}, the choices."
            )
        question = (cells.get("question") or "").strip()
        return Choices(cells["premise"].strip(), question, choices, label, id)

    def _multi_answer(self, cells: Any, id: str, file: Any, line: int, wanted: Wanted) -> Candidate:
        group = cells.get("group")
        texts = (cells["passage"], cells["question"], cells["answer"])
        return Candidate(*texts, cells.get("label"), "" if group is None else str(group), id)

    def _cloze(self, cells: Any, id: str, file: Any, line: int, wanted: Wanted) -> Cloze:
        entities = _texts(cells["entities"], "entities", file, line)
        answers = _texts(cells.get("answers") or (), "answers", file, line)
        if Cloze.PLACEHOLDER not in cells["query"]:
            raise ValueError(f"{at(file, line)}: the query has no {Cloze.PLACEHOLDER}.")
        return Cloze(cells["passage"], cells["query"], tuple(entities), tuple(answers), id)

    def _word_in_context(self, cells: Any, id: str, file: Any, line: int, wanted: Wanted) -> WordPair:
        first = _span(cells["first_span"], "first_span", cells["first"], file, line)
        second = _span(cells["second_span"], "second_span", cells["second"], file, line)
        return WordPair(cells["first"], cells["second"], first, second, cells.get("label"), id)

    def _coreference(self, cells: Any, id: str, file: Any, line: int, wanted: Wanted) -> Coreference:
        noun = _span(cells["noun_span"], "noun_span", cells["text"], file, line)
        pronoun = _span(cells["pronoun_span"], "pronoun_span", cells["text"], file, line)
        return Coreference(cells["text"], noun, pronoun, cells.get("label"), id)

    def _question_answering(
        self, cells: Any, id: str, file: Any, line: int, wanted: Wanted
    ) -> Question:
        context = cells["context"]
        texts, starts = _answers(cells.get("answers"), cells.get("starts"), file, line)
        if not starts and texts:
            starts = [context.find(text) for text in texts]
        if len(starts) != len(texts):
            raise ValueError(f"{at(file, line)}: {len(texts)} answers and {len(starts)} starts.")
        for text, start in zip(texts, starts, strict=True):
            check_answer(context, text, start, at(file, line), id)
        language = str(cells.get("language") or wanted.language or "en")
        return Question(cells["question"].strip(), context, tuple(texts), tuple(starts), language, id)

    def _tagging(self, cells: Any, id: str, file: Any, line: int, wanted: Wanted) -> Tagged:
        words = _texts(cells["words"], "words", file, line)
        tags = _texts(cells.get("tags") or (), "tags", file, line)
        if tags and len(tags) != len(words):
            raise ValueError(f"{at(file, line)}: {len(words)} words and {len(tags)} tags.")
        checked: list[str] = []
        for tag in tags:
            previous = checked[-1] if checked else "O"
            begin, _, kind = tag.partition("-")
            if tag != "O" and (begin not in ("B", "I") or kind not in self.labels):
                raise ValueError(
                    f"{at(file, line)}: the tag {tag!r} is not O, or B- or I- with one of "
                    f"{', '.join(self.labels)}."
                )
            if begin == "I" and previous[1:] != tag[1:]:
                if wanted.iob == "strict":
                    raise ValueError(impossible(tag, previous, file, line))
                tag = f"B{tag[1:]}"
                wanted.note(MENDED)
            checked.append(tag)
        return Tagged(tuple(words), tuple(checked), id)

    def _summarization(self, cells: Any, id: str, file: Any, line: int, wanted: Wanted) -> Document:
        found = cells.get("summaries")
        several = [found] if isinstance(found, str) else _texts(found or (), "summaries", file, line)
        return Document(cells["text"].strip(), tuple(text.strip() for text in several), id)

    def _masked_lm(self, cells: Any, id: str, file: Any, line: int, wanted: Wanted) -> Line:
        return Line(cells["text"].strip(), id)


def no_labels(kind: str) -> str:
    """The sentence about `labels` of a kind without named classes."""
    yes_or_no = " (its labels are false and true)" if kind in YES_OR_NO else ""
    return f"`labels` name classes, which a {kind} task does not have{yes_or_no}: leave them out."


def _several(wish: str | Sequence[str], names: Sequence[str]) -> list[str]:
    if not isinstance(wish, str):
        return [str(column) for column in wish]
    return [wish] if wish in names or "," not in wish else [part.strip() for part in wish.split(",")]


def has(wish: str | Sequence[str], names: Sequence[str]) -> bool:
    """Whether a column, or all of several, are among the names."""
    several = _several(wish, names)
    return all(column in names or column.partition(".")[0] in names for column in several)


def no_column(wished: str, names: Sequence[str], where: str) -> str:
    """The sentence about a column that is not there."""
    return f"{where}: there is no column {wished}; the columns are: {', '.join(names)}."


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
        raise ValueError(f"{at(file, line)}: the value {cell!r} is not a whole number.")
    return int(number)


def _span(cell: Any, field: str, text: str, file: File | str, line: int) -> tuple[int, int]:
    numbers = [_whole(part, file, line) for part in _list(cell, field, file, line)]
    if len(numbers) != 2 or not 0 <= numbers[0] < numbers[1] <= len(text):
        raise ValueError(
            f"{at(file, line)}: {numbers} is not a start and an end in a text of {len(text)}."
        )
    return numbers[0], numbers[1]


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
