"""Rows of csv, tsv, JSON lines, JSON, parquet and Arrow files, each with the number of its line."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gradaccord.data.files.bad_files import reading
from gradaccord.data.files.dialect import (
    Dialect,
    Fits,
    QuotesError,
    TableOptions,
    find_dialect,
    rows_in,
)
from gradaccord.data.files.text_files import File, at

FORMATS: Mapping[str, str] = {
    "csv": "csv", "tsv": "tsv", "tab": "tsv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "json",
    "parquet": "parquet", "arrow": "arrow", "feather": "arrow", "ipc": "arrow",
    "conll": "conll", "bio": "conll", "iob": "conll", "iob2": "conll", "txt": "text",
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


def rows_of(
    file: File,
    format: str,
    options: TableOptions | None = None,
    fits: Fits = lambda names: True,
) -> tuple[Sequence[Row], Dialect | None]:
    """Each row as a mapping, and how a csv or tsv file was found to be written.

    Without a header the columns are called "0", "1" and so on. fits: whether columns of these names
    are what is looked for, by which a header is known.
    """
    options = options or TableOptions()
    if format in ("csv", "tsv"):
        text = file.text(options.encoding)
        dialect = find_dialect(text, "," if format == "csv" else "\t", options, fits)
        return list(_table(file, text, dialect)), dialect
    if format == "jsonl":
        return list(file.json_lines()), None
    if format == "json":
        return _json(file), None
    if format in ("parquet", "arrow"):
        return list(enumerate(_arrow(file, format), start=1)), None
    lines = enumerate(file.lines(options.encoding), start=1)
    return [(number, {"text": line}) for number, line in lines if line.strip()], None


def _table(file: File, text: str, dialect: Dialect) -> Iterator[Row]:
    names = dialect.names
    if len(set(names)) < len(names):
        raise ValueError(
            f"{at(file, 1)}: two columns have the same name: {', '.join(names)}; rename one, or name "
            "them in order, columns: [...]."
        )
    rows = enumerate(rows_in(text, dialect.separator, dialect.quotes))
    while True:
        try:
            place, (number, row) = next(rows)
        except StopIteration:
            return
        except QuotesError as error:
            raise ValueError(
                f"{at(file, error.line)}: not CSV ({error}): double the quotes inside quoted cells, or "
                "set `quotes: false` if they are not special."
            ) from error
        if place < dialect.begins:
            continue
        if len(row) != len(names):
            raise ValueError(
                f"{at(file, number)}: {len(row)} columns where there should be {len(names)} "
                f"({', '.join(names)}; {dialect}): repair the line, or set `separator` or `quotes`."
            )
        yield number, dict(zip(names, row, strict=True))


def _json(file: File) -> list[Row]:
    content = file.json()
    found = content.get("data") if isinstance(content, dict) else content
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise ValueError(f"{file} is not a JSON list of objects.")
    return list(enumerate(found, start=1))


def _arrow(file: File, format: str) -> list[dict[str, Any]]:
    """Of a parquet file, an Arrow file or stream, or Feather."""
    try:
        from pyarrow import feather, ipc, parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'{format.capitalize()} files need the package pyarrow: pip install "gradaccord[train]".',
            name="pyarrow",
        ) from error
    with reading(file):
        content = file.content()
        if format == "parquet":
            table = parquet.read_table(io.BytesIO(content))
        elif content.startswith((b"ARROW1", b"FEA1")):
            table = feather.read_table(io.BytesIO(content))
        else:
            table = ipc.open_stream(content).read_all()
        table.validate(full=True)  # offsets in a damaged file may lead anywhere
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows
