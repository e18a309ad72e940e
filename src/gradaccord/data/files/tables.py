"""Tab-separated files without quoting, read column by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradaccord.data.files.text_files import File, at


def rows(
    file: File,
    columns: Sequence[str | int],
    *,
    header: bool = True,
    optional: Sequence[str] = (),
    faults: list[int] | None = None,
) -> Iterator[tuple[int, list[str | None]]]:
    """Each line's number and its cells of the named (or counted, from 0) columns.

    optional: columns that may be missing; their cells are then None. faults: where given, lines with
    another number of cells than the first are put there (their numbers) instead of being an error.
    """
    lines = file.lines()
    first = lines[0].split("\t")
    places = [_place(column, first if header else None, optional, file) for column in columns]
    width = len(first)
    for number, line in enumerate(lines[1:] if header else lines, start=2 if header else 1):
        cells = line.split("\t")
        if len(cells) != width:
            if faults is None:
                raise ValueError(
                    f"{at(file, number)}: {len(cells)} columns where line 1 has {width}: columns are "
                    "separated by one tab each."
                )
            faults.append(number)
            continue
        yield number, [None if place is None else cells[place] for place in places]


def _place(
    column: str | int, header: list[str] | None, optional: Sequence[str], file: File
) -> int | None:
    if isinstance(column, int):
        return column
    if header is not None and column in header:
        return header.index(column)
    if column in optional:
        return None
    there = ", ".join(header or [])
    raise ValueError(f"{at(file, 1)}: there is no column {column!r}; the columns are: {there}.")
