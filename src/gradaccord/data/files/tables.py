"""Rows of csv, tsv, JSON lines, JSON, parquet and Arrow files, each with the number of its line.

A file is read a block at a time, so that memory is that of a block, however large it is (of a .json
file, which is one value, that of all rows). Tables are read by Python's csv and not by pyarrow's
reader, which knows no lines, and so has none for errors and ids. It would hardly pay, either: on
100,000 rows of two sentences and a label, one thread, a row takes csv 0.9 microseconds and pyarrow's
streaming reader 0.5 (1.8 and 1.1 with a mapping made of it), of some 25 until it is an example on disk.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cached_property, partial
from itertools import islice
from typing import Any

from gradaccord.data.files.bad_files import reading
from gradaccord.data.files.dialect import (
    SAMPLE,
    Dialect,
    Fits,
    QuotesError,
    TableOptions,
    find_dialect,
    newline_of,
    rows_in,
)
from gradaccord.data.files.text_files import File, at

FORMATS: Mapping[str, str] = {
    "csv": "csv", "tsv": "tsv", "tab": "tsv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "json",
    "parquet": "parquet", "arrow": "arrow", "feather": "arrow", "ipc": "arrow",
    "conll": "conll", "bio": "conll", "iob": "conll", "iob2": "conll", "txt": "text",
}  # fmt: skip

Row = tuple[int, Mapping[str, Any]]
AtByte = Callable[[int], None]  # called with how much of a file was read
_BLOCK = 4096  # rows of parquet and Arrow that are objects of Python at once


class Rows:
    """The rows of a file, read from it whenever they are gone through; also those of a list.

    read: starts again at the first; its argument is called with how much of `size` was read.
    """

    def __init__(self, read: Callable[[AtByte], Iterable[Row]], size: int = 0) -> None:
        self._read, self.size = read, size

    @contextmanager
    def each(self, at_byte: AtByte = lambda place: None) -> Iterator[Iterator[Row]]:
        """All rows, one after another; the file is closed at the end, or where reading stops."""
        rows = iter(self._read(at_byte))
        try:
            yield rows
        finally:
            if isinstance(rows, Generator):
                rows.close()

    @cached_property
    def first(self) -> Row | None:
        """The first row; None: there is none."""
        with self.each() as rows:
            return next(rows, None)

    @property
    def names(self) -> list[str]:
        """The columns of the first row."""
        return [] if self.first is None else [*self.first[1]]


def format_of(file: File, given: str | None = None) -> str:
    """The format that was given, or that the file's name ends in."""
    known = sorted(set(FORMATS.values()))
    if given is not None:
        if given not in known:
            raise ValueError(f"`format` is {given!r}: use one of {', '.join(known)}.")
        return given
    ending = file.name.rpartition(".")[2].lower()
    if ending not in FORMATS:
        raise ValueError(
            f"{file} does not end in a known format: rename it, or set `format` to one of "
            f"{', '.join(known)}."
        )
    return FORMATS[ending]


def rows_of(
    file: File,
    format: str,
    options: TableOptions | None = None,
    fits: Fits = lambda names: True,
) -> tuple[Rows, Dialect | None]:
    """Each row as a mapping, and how a csv or tsv file was found to be written.

    Without a header the columns are called "0", "1" and so on. fits: whether columns of these names
    are what is looked for, by which a header is known.
    """
    options = options or TableOptions()
    if format in ("csv", "tsv"):
        text = file.beginning(SAMPLE, options.encoding)
        dialect = find_dialect(text, "," if format == "csv" else "\t", options, fits)
        return Rows(partial(_table, file, options.encoding, dialect), file.size), dialect
    if format == "jsonl":
        return Rows(file.json_lines, file.size), None
    if format == "json":
        whole = _json(file)
        return Rows(lambda _: whole), None
    if format in ("parquet", "arrow"):
        return Rows(partial(_arrow, file, format), file.size), None
    return Rows(partial(_plain, file, options.encoding), file.size), None


def _plain(file: File, encoding: str, at_byte: AtByte) -> Iterator[Row]:
    with closing(file.each_line(encoding, at_byte=at_byte)) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, {"text": line.removesuffix("\n")}


def _table(file: File, encoding: str, dialect: Dialect, at_byte: AtByte) -> Iterator[Row]:
    """The rows of csv or tsv."""
    names = dialect.names
    if len(set(names)) < len(names):
        raise ValueError(
            f"{at(file, 1)}: two columns have the same name: {', '.join(names)}; rename one, or name "
            "them in order, columns: [...]."
        )
    width = len(names)
    with (
        closing(file.each_line(encoding, newline_of(dialect.quotes), at_byte)) as lines,
        closing(rows_in(lines, dialect.separator, dialect.quotes)) as rows,
    ):
        try:
            for number, row in islice(rows, dialect.begins, None):
                if len(row) != width:
                    raise ValueError(
                        f"{at(file, number)}: {len(row)} columns where there should be {width} "
                        f"({', '.join(names)}; {dialect}): repair the line, or set `separator` or "
                        "`quotes`."
                    )
                yield number, dict(zip(names, row, strict=True))
        except QuotesError as error:
            raise ValueError(
                f"{at(file, error.line)}: not CSV ({error}): double the quotes inside quoted cells, or "
                "set `quotes: false` if they are not special."
            ) from error


def _json(file: File) -> list[Row]:
    content = file.json()
    found = content.get("data") if isinstance(content, dict) else content
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise ValueError(f"{file} is not a JSON list of objects.")
    return list(enumerate(found, start=1))


def _arrow(file: File, format: str, at_byte: AtByte) -> Iterator[Row]:
    """The rows of a parquet file, an Arrow file or stream, or Feather."""
    try:
        from pyarrow import feather, ipc, parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'{format.capitalize()} files need the package pyarrow: pip install "gradaccord[train]".',
            name="pyarrow",
        ) from error
    number = 0
    with reading(file), file.opened() as (stream, place):
        on_disk = isinstance(getattr(stream, "raw", None), io.FileIO)
        source = stream if on_disk else io.BytesIO(stream.read())  # parquet begins at the end
        head = source.read(6)
        if not head:
            file.content()  # which says so
        source.seek(0)
        batches: Iterable[Any]
        if format == "parquet":
            batches = parquet.ParquetFile(source).iter_batches(_BLOCK)
        elif head == b"ARROW1":
            opened = ipc.open_file(source)
            batches = map(opened.get_batch, range(opened.num_record_batches))
        elif head[:4] == b"FEA1":
            batches = feather.read_table(source).to_batches()
        else:
            batches = ipc.open_stream(source)
        for batch in batches:
            batch.validate(full=True)  # offsets in a damaged file may lead anywhere
            at_byte(place())
            for start in range(0, len(batch), _BLOCK):
                rows = batch.slice(start, _BLOCK).to_pylist()
                yield from enumerate(rows, start=number + 1)
                number += len(rows)
