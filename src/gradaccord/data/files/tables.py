"""Rows of csv, tsv, JSON lines, JSON and parquet files, each with the number of its line."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from gradaccord.data.files.bad_files import reading
from gradaccord.data.files.text_files import File, at

FORMATS: Mapping[str, str] = {
    "csv": "csv", "tsv": "tsv", "tab": "tsv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "json",
    "parquet": "parquet", "conll": "conll", "bio": "conll", "iob": "conll", "iob2": "conll",
    "txt": "text",
}  # fmt: skip

Row = tuple[int, Mapping[str, Any]]


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


def rows_of(file: File, format: str, header: bool = True, encoding: str = "utf-8") -> Iterator[Row]:
    """Each row as a mapping; without a header the columns are called "0", "1" and so on."""
    if format == "csv":
        return _csv(file, header, encoding)
    if format == "tsv":
        cells = (
            (number, line.split("\t")) for number, line in enumerate(file.lines(encoding), start=1)
        )
        return _named(file, cells, header)
    if format == "jsonl":
        return file.json_lines()
    if format == "json":
        return _json(file)
    if format == "parquet":
        return _parquet(file)
    return ((n, {"text": line}) for n, line in enumerate(file.lines(encoding), start=1) if line.strip())


def _csv(file: File, header: bool, encoding: str) -> Iterator[Row]:
    text = file.text(encoding)
    limit = csv.field_size_limit(sys.maxsize)  # a long document is one cell
    try:
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        cells = []
        try:
            while True:
                start = reader.line_num + 1
                cells.append((start, next(reader)))
        except StopIteration:
            pass
        except csv.Error as error:
            raise ValueError(f"{at(file, start)}: not CSV ({error}).") from error
    finally:
        csv.field_size_limit(limit)
    return _named(file, ((number, row) for number, row in cells if row), header)


def _named(file: File, cells: Iterator[tuple[int, list[str]]], header: bool) -> Iterator[Row]:
    names: list[str] | None = None
    for number, row in cells:
        if names is None:
            names = row if header else [str(place) for place in range(len(row))]
            if len(set(names)) < len(names):
                raise ValueError(
                    f"{at(file, number)}: two columns have the same name: {', '.join(names)}."
                )
            if header:
                continue
        if len(row) != len(names):
            raise ValueError(f"{at(file, number)}: {len(row)} columns where line 1 has {len(names)}.")
        yield number, dict(zip(names, row, strict=True))


def _json(file: File) -> Iterator[Row]:
    content = file.json()
    found = content.get("data") if isinstance(content, dict) else content
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise ValueError(f"{file} is not a JSON list of objects.")
    return enumerate(found, start=1)


def _parquet(file: File) -> Iterator[Row]:
    try:
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'Parquet files need the package pyarrow: pip install "gradaccord[train]".', name="pyarrow"
        ) from error
    with reading(file):
        return enumerate(parquet.read_table(io.BytesIO(file.content())).to_pylist(), start=1)
