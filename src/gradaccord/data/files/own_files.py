"""Your own files: csv, tsv, JSON lines, parquet or CoNLL with named columns, as a data set of any kind.

read("classification", {"train": "a.csv"}, columns={"first": "review", "label": "stars"})
read("tagging", {"train": "train.conll"}, labels=["PER", "LOC"])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradaccord.data.dataset import ORDER, SPLITS, Dataset
from gradaccord.data.examples import Question, Tagged
from gradaccord.data.files import squad
from gradaccord.data.files.bad_files import reading
from gradaccord.data.files.columns import Columns, Reader, cell_of
from gradaccord.data.files.conll import Conll, types_in
from gradaccord.data.files.layouts import Iob, Read, Wanted, with_own_ids
from gradaccord.data.files.tables import Row, format_of, rows_of
from gradaccord.data.files.text_files import File, at

Files = Mapping[str, str | Path | Sequence[str | Path]]
FileRows = tuple[File, Sequence[Row]]


def read(
    kind: str,
    files: Files,
    columns: Columns | None = None,
    labels: Sequence[str] | None = None,
    *,
    name: str = "files",
    language: str = "",
    format: str | None = None,
    header: bool = True,
    encoding: str = "utf-8",
    iob: Iob = "strict",
) -> Dataset:
    """A data set out of files, plain or gzipped.

    kind: of task. files: one or several for each split (train, dev, test). columns: field -> column,
    for fields whose column has no usual name (`files/columns.py`); CoNLL: "words" and "tags" by number,
    from 0. labels: classes in the order of their numbers, or entity types; without it all that occur,
    sorted. format: instead of the files' endings. header: False if csv or tsv has none; its columns are
    then "0", "1" and so on. iob: "repair" reads an I- tag that continues nothing as B-.
    """
    if not files:
        raise ValueError("`files` is empty: give at least one, such as {'train': 'train.jsonl'}.")
    if iob not in ("repair", "strict"):
        raise ValueError(f"`iob` is {iob!r}: use 'repair' or 'strict'.")
    by_split = _by_split(files)
    reader = Reader(kind, columns or {}, tuple(labels or ()))
    formats = {file: format_of(file, format) for several in by_split.values() for file in several}
    splits: dict[str, list[Any]] = {}
    wanted = {split: Wanted(split, language, reader.labels, iob) for split in by_split}
    if reader.fields is Tagged and set(formats.values()) <= {"conll", "text"}:
        comments = any(file.name.endswith(".iob2") for file in formats)
        conll = _conll(reader.columns, encoding, comments)
        types = reader.labels or tuple(sorted(_types(formats, conll)))
        reader = replace(reader, labels=types)
        for split, several in by_split.items():
            wanted[split] = replace(wanted[split], labels=types)
            splits[split] = _each(several, conll, wanted[split])
    elif reader.fields is Question and set(formats.values()) == {"json"} and not columns:
        for split, several in by_split.items():
            splits[split] = _each(several, squad.read, wanted[split])
    else:
        rows: dict[str, list[FileRows]] = {split: [] for split in by_split}
        for split, several in by_split.items():
            for file in several:
                with reading(file):
                    found = [*rows_of(file, formats[file], header, encoding)]
                rows[split].append((file, found))
        return dataset_of(name, reader, rows, language, iob)
    return _dataset(name, reader, splits, wanted.values(), language)


def dataset_of(
    name: str, reader: Reader, rows: Mapping[str, Sequence[FileRows]], language: str, iob: Iob
) -> Dataset:
    """A data set out of rows: the files of each split, and the rows of each file."""
    parts = [(split, file, found) for split, files in rows.items() for file, found in files]
    reader = with_labels(reader, parts)
    wanted = {split: Wanted(split, language, reader.labels, iob) for split in rows}
    splits: dict[str, list[Any]] = {split: [] for split in rows}
    for split, file, found in parts:
        with reading(file):
            splits[split] += reader.examples(found, file, wanted[split])
    return _dataset(name, reader, splits, wanted.values(), language)


def _dataset(
    name: str,
    reader: Reader,
    splits: Mapping[str, list[Any]],
    wanted: Iterable[Wanted],
    language: str,
) -> Dataset:
    splits = {split: with_own_ids(splits[split]) for split in ORDER if split in splits}
    options = reader.fields.task_options([example for part in splits.values() for example in part])
    notes = {what: times for each in wanted for what, times in each.notes.items()}
    return Dataset(name, reader.kind, splits, reader.labels, language, options, notes)


def with_labels(reader: Reader, parts: Iterable[tuple[str, File, Sequence[Row]]]) -> Reader:
    """The reader with the classes or entity types that occur, where none were given."""
    if reader.labels or not reader.has_names:
        return reader
    field = reader.fields.targets[0]
    found: set[str] = set()
    for split, file, rows in parts:
        with reading(file):
            found |= _labels(reader, split, file, rows, field)
    numbers = all(label.isdigit() for label in found)
    return replace(reader, labels=tuple(sorted(found, key=int if numbers else None)))


def _labels(reader: Reader, split: str, file: File, rows: Sequence[Row], field: str) -> set[str]:
    """The classes or entity types of one file."""
    columns = reader.places([*rows[0][1]], at(file, 1), split).get(field) if rows else None
    if columns is None:
        return set()
    cells = (cell_of(row, columns, at(file, line)) for line, row in rows)
    if reader.answer == "class":
        return {_written(cell) for cell in cells if cell not in (None, "", -1)}
    return {t.partition("-")[2] for tags in cells for t in _tags(tags) if t != "O"}


def _each(files: Sequence[File], read: Read, wanted: Wanted) -> list[Any]:
    """The examples of several files of a split."""
    found: list[Any] = []
    for file in files:
        with reading(file):
            found += read(file, wanted)
    return found


def _types(files: Iterable[File], conll: Conll) -> set[str]:
    """The entity types in several files."""
    found: set[str] = set()
    for file in files:
        with reading(file):
            found |= types_in(file, conll)
    return found


def _written(cell: Any) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()


def _tags(cell: Any) -> list[str]:
    return [str(t) for t in (cell.split() if isinstance(cell, str) else cell or ())]


def _by_split(files: Files) -> dict[str, list[File]]:
    found: dict[str, list[File]] = {}
    for written, given in files.items():
        split = SPLITS.get(written.lower())
        if split is None:
            raise ValueError(f"`files` names the split {written!r}: use train, dev or test.")
        several = [given] if isinstance(given, str | Path) else list(given)
        found.setdefault(split, []).extend(File(Path(path)) for path in several)
    for opened in found.values():
        for file in opened:
            if not file.path.is_file():
                raise FileNotFoundError(2, "No such file", str(file.path.absolute()))
    return {split: found[split] for split in ORDER if split in found}


def _conll(columns: Columns, encoding: str, comments: bool) -> Conll:
    places = {}
    for field, place in columns.items():
        if field not in ("words", "tags"):
            raise ValueError(
                f"`columns` names {field!r}: a CoNLL file has columns of words and tags alone."
            )
        try:
            places[field] = int(str(place))
        except ValueError:
            raise ValueError(
                f"`columns` has {place!r} for {field!r}: columns of a CoNLL file are numbers, from 0."
            ) from None
    return Conll(
        word=places.get("words", 0),
        tag=places.get("tags", -1),
        comments=comments,
        encodings=(encoding,),
    )
