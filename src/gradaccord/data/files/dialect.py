"""How a table is written: separator, quotes and header, found in its first lines unless given."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

# From the least to the most common inside texts: of two that part all lines alike, the first is meant.
SEPARATORS: Mapping[str, str] = {"tab": "\t", "semicolon": ";", "pipe": "|", "comma": ","}
SAMPLE = 1 << 17  # characters that are looked at
ROWS = 200  # and rows of them
UNREAD = "_"  # the name of a column that is not read

Cells = tuple[int, list[str]]  # the number of a row's first line, and what stands in its columns
Fits = Callable[[Sequence[str]], bool]  # whether columns of these names are what is looked for


@dataclass(frozen=True)
class TableOptions:
    """How a file is written, as the user says; what is None is found out.

    separator: comma, tab, semicolon, pipe, or any one character. quotes: whether quotation marks
    enclose cells. header: whether the first line names the columns. names: of the columns in order,
    instead of the header's; "_" is a column that is not read. format: instead of the file's ending.
    """

    format: str | None = None
    header: bool | None = None
    separator: str | None = None
    quotes: bool | None = None
    encoding: str = "utf-8"
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given = self.separator
        if given is not None and given not in SEPARATORS and (len(given) != 1 or given in '"\r\n'):
            raise ValueError(
                f"`separator` is {given!r}: use {', '.join(SEPARATORS)}, or one character."
            )
        read = [name for name in self.names if name != UNREAD]
        if len(set(read)) < len(read):
            raise ValueError(
                f"`columns` is {list(self.names)}: name each column once, {UNREAD!r} for one that is "
                "not read."
            )


@dataclass(frozen=True)
class Dialect:
    """What was found or given. names: of the columns; begins: the first row that is an example."""

    separator: str
    quotes: bool
    names: tuple[str, ...]
    begins: int

    def __str__(self) -> str:
        name = next((name for name, sign in SEPARATORS.items() if sign == self.separator), None)
        quotes = "with quotes" if self.quotes else "quotes not special"
        header = "a header" if self.begins else "no header"
        return f"separator {name or repr(self.separator)}, {quotes}, {header}"


def find_dialect(text: str, own: str, options: TableOptions, fits: Fits) -> Dialect:
    """How a table is written. text: its beginning, of whole lines; own: its ending's separator."""
    sample = text[:SAMPLE]
    if len(text) > SAMPLE:
        sample = sample[: sample.rfind("\n") + 1] or sample
    given = options.separator
    tried = [SEPARATORS.get(given, given)] if given is not None else [*SEPARATORS.values()]
    best: tuple[tuple[bool, float], str, bool, list[list[str]]] | None = None
    for separator in tried:
        quotes = _quotes(sample, separator) if options.quotes is None else options.quotes
        rows = _sampled(sample, separator, quotes)
        width = len(rows[0]) if rows else 0
        share = sum(len(row) == width for row in rows) / max(len(rows), 1)
        agrees = width == len(options.names) if options.names else bool(rows) and _named(rows[0], fits)
        rank = (agrees, share)
        if given is None and (width < 2 or share <= 0.5):
            continue
        if best is None or rank > best[0]:
            best = (rank, separator, quotes, rows)
    if best is None:
        quotes = own != "\t" if options.quotes is None else options.quotes
        best = ((False, 0.0), own, quotes, _sampled(sample, own, quotes))
    _, separator, quotes, rows = best
    return Dialect(separator, quotes, *_header(rows, options, fits))


class QuotesError(ValueError):
    """Quotes that are misplaced. line: of the row's beginning."""

    def __init__(self, reason: object, line: int) -> None:
        super().__init__(str(reason))
        self.line = line


def newline_of(quotes: bool) -> str:
    """How a file with or without quotes is parted into lines: csv knows all ends of a row."""
    return "" if quotes else "\n"


def rows_in(
    lines: Iterable[str], separator: str, quotes: bool, *, strict: bool = True
) -> Generator[Cells, None, None]:
    """The rows of lines, empty ones left out; a `QuotesError` if quotes are misplaced."""
    if not quotes:
        for number, line in enumerate(lines, start=1):
            if separator in line or line.strip():
                yield number, line.removesuffix("\n").split(separator)
        return
    with _long_cells():
        reader = csv.reader(lines, delimiter=separator, strict=strict)
        while True:
            start = reader.line_num + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise QuotesError(error, start) from error
            if row:
                yield start, row


@contextmanager
def _long_cells() -> Iterator[None]:
    """A long document is one cell."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _sampled(sample: str, separator: str, quotes: bool) -> list[list[str]]:
    """The first rows of a sample, as far as they can be read."""
    found = []
    try:
        for _, row in _rows(sample, separator, quotes, strict=False):
            found.append(row)
            if len(found) == ROWS:
                break
    except QuotesError:
        pass
    return found


def _rows(sample: str, separator: str, quotes: bool, *, strict: bool = True) -> Iterator[Cells]:
    lines = io.StringIO(sample, newline=newline_of(quotes))
    return rows_in(lines, separator, quotes, strict=strict)


def _quotes(sample: str, separator: str) -> bool:
    """Whether quotation marks enclose cells: always, but between tabs only if some must be quotes."""
    if separator != "\t":
        return True
    plain = _sampled(sample, separator, False)
    quoted = [[len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in row] for row in plain]
    doubled = any('""' in cell[1:-1] for row in plain for cell in row if cell[:1] == '"')
    even = len({len(row) for row in plain}) == 1
    if not plain or (even and not doubled and not all(quoted[0])):
        return False
    try:
        return len({len(row) for _, row in _rows(sample, separator, True)}) == 1
    except QuotesError:
        return False


def _header(
    rows: Sequence[Sequence[str]], options: TableOptions, fits: Fits
) -> tuple[tuple[str, ...], int]:
    """The names of the columns, and the number of rows before the first example."""
    first = tuple(cell.strip() for cell in rows[0]) if rows else ()
    numbered = tuple(map(str, range(len(first))))
    given = tuple(f"_{i}" if name == UNREAD else name for i, name in enumerate(options.names))
    if options.header is not None:
        names = given or (first if options.header else numbered)
        return names, int(options.header)
    if given:
        same = {cell.casefold() for cell in first} == {name.casefold() for name in given}
        return given, int(same or _names_numbers(rows))
    if not fits(first) and fits(numbered):
        return numbered, int(_names_numbers(rows))
    return first, 1


def _named(first: Sequence[str], fits: Fits) -> bool:
    return fits([cell.strip() for cell in first]) or fits([*map(str, range(len(first)))])


def _names_numbers(rows: Sequence[Sequence[str]]) -> bool:
    """Whether some column holds numbers alone below a first cell that is none."""
    if len(rows) < 2:
        return False
    columns = zip(*(row for row in rows if len(row) == len(rows[0])), strict=True)
    return any(
        not is_number(first) and any(rest) and all(is_number(cell) for cell in rest if cell)
        for first, *rest in columns
    )


def is_number(cell: str) -> bool:
    """Whether it is written as one."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
