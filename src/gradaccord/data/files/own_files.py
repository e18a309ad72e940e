"""Your own files: csv, tsv, JSON lines, parquet, Arrow or CoNLL, as a data set of any kind.

read("classification", {"train": "a.csv"}, columns={"first": "review", "label": "stars"})
read("classification", {"train": "b.tsv"}, columns=["id", "first", "second", "label"], header=False)
read("tagging", {"train": "train.conll"}, labels=["PER", "LOC"])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.data.dataset import ORDER, SPLITS, Dataset
from gradaccord.data.examples import Example, Line, Question, Tagged, Text
from gradaccord.data.files import squad
from gradaccord.data.files.bad_files import reading
from gradaccord.data.files.columns import Columns, Reader, cell_of, has
from gradaccord.data.files.conll import Conll, types_in
from gradaccord.data.files.dialect import UNREAD, Dialect, Fits, TableOptions
from gradaccord.data.files.layouts import Iob, Keep, Read, Wanted, with_own_ids
from gradaccord.data.files.tables import AtByte, Rows, format_of, rows_of
from gradaccord.data.files.text_files import File, at
from gradaccord.data.files.which_kind import kind_of_rows

Files = Mapping[str, str | Path | Sequence[str | Path]]
FileRows = tuple[File, Rows]

DIGITS = 18  # of labels that are sorted as numbers


def read(
    kind: str | None,
    files: Files,
    columns: Columns | Sequence[str] | None = None,
    labels: Sequence[str] | Mapping[str, str] | None = None,
    *,
    name: str = "files",
    language: str = "",
    format: str | None = None,
    header: bool | None = None,
    separator: str | None = None,
    quotes: bool | None = None,
    encoding: str = "utf-8",
    iob: Iob = "strict",
    keep: Keep = list,
    watch: Watch = NOBODY,
) -> Dataset:
    """A data set from files, plain or packed (gz, bz2, zst).

    kind: of task; None: found by columns and labels (`files/which_kind.py`).
    files: one or several for each split (train, dev, test).
    columns: field -> column, for fields whose column has no usual name (`files/columns.py`), or the
        names of all columns in order; CoNLL: "words" and "tags" by number, from 0.
    labels: classes in the order of their numbers, or entity types, or a mapping from what the files
        write to the classes; by default all that occur, sorted.
    format: instead of the files' endings.
    header, separator, quotes: of csv and tsv (`TableOptions`), detected where they are None; without a
        header and names the columns are "0", "1" and so on.
    iob: "repair" reads an I- tag that continues nothing as B-.
    keep: called with an iterator over a split's examples; returns the sequence that holds them.
    """
    if not files:
        raise ValueError("`files` is empty: give at least one, such as {'train': 'train.jsonl'}.")
    if iob not in ("repair", "strict"):
        raise ValueError(f"`iob` is {iob!r}: use 'repair' or 'strict'.")
    by_split = _by_split(files)
    names = () if columns is None or isinstance(columns, Mapping) else tuple(columns)
    options = TableOptions(format, header, separator, quotes, encoding, names)
    if kind is None:
        kind = _found_kind(next(iter(by_split.values()))[0], columns, options)
    reader = reader_for(kind, columns, labels)
    formats = {file: format_of(file, format) for several in by_split.values() for file in several}
    splits: dict[str, Iterable[Any]] = {}
    wanted = {split: Wanted(split, language, reader.labels, iob) for split in by_split}
    whole = {*formats.values()} <= {*reader.fields.whole_files}
    if reader.fields is Tagged and whole:
        comments = any(file.name.endswith(".iob2") for file in formats)
        conll = _conll(reader.columns, encoding, comments)
        types = reader.labels or tuple(sorted(_types(formats, conll)))
        reader = replace(reader, labels=types)
        for split, several in by_split.items():
            wanted[split] = replace(wanted[split], labels=types)
            splits[split] = _each(several, conll, wanted[split])
    elif reader.fields is Question and whole and not columns:
        for split, several in by_split.items():
            splits[split] = _each(several, squad.read, wanted[split])
    else:
        rows: dict[str, list[FileRows]] = {split: [] for split in by_split}
        found: dict[str, list[str]] = {}  # how files are written -> which of them
        for split, several in by_split.items():
            for file in several:
                read_rows, dialect = table_of(file, reader.fields, options, reader.fits)
                rows[split].append((file, read_rows))
                if dialect is not None:
                    found.setdefault(_described(reader, dialect, split), []).append(file.path.name)
        how = tuple(f"{', '.join(own)}: {written}." for written, own in found.items())
        found_set = dataset_of(name, reader, rows, language, iob, keep=keep, watch=watch)
        return replace(found_set, read_as=how)
    return _dataset(name, reader, splits, wanted.values(), language, keep)


def _found_kind(file: File, columns: Columns | Sequence[str] | None, options: TableOptions) -> str:
    """The kind of a file, where none was given."""
    if format_of(file, options.format) == "conll":
        return "tagging"
    given = columns if isinstance(columns, Mapping) else {}

    def fits(names: Sequence[str]) -> bool:
        if given:
            return all(has(column, names) for column in given.values())
        return Reader("classification", {}).fits(names)

    rows, _ = table_of(file, Text, options, fits)
    with reading(file):
        return kind_of_rows(rows, file, given)


def reader_for(
    kind: str,
    columns: Columns | Sequence[str] | None,
    labels: Sequence[str] | Mapping[str, str] | None,
) -> Reader:
    """A reader of rows; names of all columns in order are the table's, not the reader's."""
    by_field = columns if isinstance(columns, Mapping) else {}
    if not isinstance(labels, Mapping):
        return Reader(kind, by_field, tuple(labels or ()))
    reader = Reader(kind, by_field, tuple(dict.fromkeys(labels.values())), dict(labels))
    if reader.answer != "class":
        raise ValueError(f"`labels` is a mapping, and {kind} has no classes: give a list of names.")
    return reader


def table_of(
    file: File, shape: type[Example], options: TableOptions, fits: Fits
) -> tuple[Rows, Dialect | None]:
    """The rows of a file of such examples, and how it was found to be written."""
    format = format_of(file, options.format)
    if format == "text" and shape is not Line:
        format = "tsv"  # a table in a file that ends in .txt
    with reading(file):
        return rows_of(file, format, options, fits)


def _described(reader: Reader, dialect: Dialect, split: str) -> str:
    """How a table is written, and what is read of it."""
    try:
        places = reader.places(dialect.names, "", split)
    except ValueError:  # to be said where the rows are read
        places = {}
    read = ", ".join(f"{field} = {' + '.join(columns)}" for field, columns in places.items())
    taken = {column for columns in places.values() for column in columns}
    rest = ", ".join(name for name in dialect.names if name not in taken and name[:1] != UNREAD)
    return f"{dialect}; {read}" + (f"; not read: {rest}" if rest else "")


def dataset_of(
    name: str,
    reader: Reader,
    rows: Mapping[str, Sequence[FileRows]],
    language: str,
    iob: Iob,
    *,
    keep: Keep = list,
    watch: Watch = NOBODY,
) -> Dataset:
    """A data set from rows: the files of each split, and the rows of each file.

    Files are read twice, the first time for their classes, unless a mapping says how these are written;
    they are never held in memory.
    """
    parts = [(split, file, found) for split, files in rows.items() for file, found in files]
    reader = with_labels(reader, parts, watch)
    wanted = {split: Wanted(split, language, reader.labels, iob) for split in rows}
    splits = {
        split: chain.from_iterable(
            reader.each(found, file, wanted[split], _bytes_of("reading", file, found, watch))
            for file, found in files
        )
        for split, files in rows.items()
    }
    return _dataset(name, reader, splits, wanted.values(), language, keep)


def _bytes_of(what: str, file: File, rows: Rows, watch: Watch) -> AtByte:
    """A function to call with how much of a file was read."""
    return lambda place: watch.at(f"{what} {file.name}", place, rows.size)


def _dataset(
    name: str,
    reader: Reader,
    splits: Mapping[str, Iterable[Any]],
    wanted: Iterable[Wanted],
    language: str,
    keep: Keep,
) -> Dataset:
    filled: set[str] = set()
    kept = {
        split: with_own_ids(_noted(splits[split], reader.fields.tells, filled), keep)
        for split in ORDER
        if split in splits
    }
    options = reader.fields.task_options(filled)
    notes = {what: times for each in wanted for what, times in each.notes.items()}
    return Dataset(
        name, reader.kind, kept, reader.labels, language, options, notes, written=reader.written
    )


def _noted(examples: Iterable[Any], fields: Sequence[str], filled: set[str]) -> Iterator[Any]:
    """The examples; on the way those of the fields that one of them has are noted."""
    for example in examples:
        if len(filled) < len(fields):
            filled.update(field for field in fields if getattr(example, field) is not None)
        yield example


def with_labels(
    reader: Reader, parts: Iterable[tuple[str, File, Rows]], watch: Watch = NOBODY
) -> Reader:
    """The reader with the classes or entity types that occur, where none were given.

    Where names were given, and the rows number the classes from 1 to as many, they are written so.
    """
    if reader.written or not reader.has_names or (reader.labels and reader.answer != "class"):
        return reader
    field = reader.fields.targets[0]
    found: set[str] = set()
    for split, file, rows in parts:
        with reading(file):
            at_byte = _bytes_of("looking for classes in", file, rows, watch)
            found |= _labels(reader, split, file, rows, field, at_byte)
    if reader.labels:
        from_one = {str(i): label for i, label in enumerate(reader.labels, start=1)}
        ends = {"1", str(len(reader.labels))}
        numbered = ends <= found <= from_one.keys() and not found & {*reader.labels}
        return replace(reader, written=from_one) if numbered else reader
    numbers = all(label.isdecimal() and len(label) <= DIGITS for label in found)
    return replace(reader, labels=tuple(sorted(found, key=int if numbers else None)))


def _labels(
    reader: Reader, split: str, file: File, rows: Rows, field: str, at_byte: AtByte
) -> set[str]:
    """The classes or entity types of one file."""
    columns = reader.places(rows.names, at(file, 1), split).get(field) if rows.first else None
    if columns is None:
        return set()
    with rows.each(at_byte) as each:
        cells = (cell_of(row, columns, file, line) for line, row in each)
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
