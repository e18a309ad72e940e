"""`gradaccord list data`: a table of the data sets found under the data folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradaccord.data.dataset import ORDER, Found
from gradaccord.data.registry import FOLDER, find, names

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_LABELS_WIDTH = 12  # characters of the last column, at least


def list_data(folder: str | Path | None = None, console: Console | None = None) -> list[Found]:
    """Print what is found under a folder (else $GRADACCORD_DATA), and return it."""
    from rich.console import Console

    console = console or Console()
    root = folder or os.environ.get(FOLDER)
    found = find(root)
    console.print(data_table(found, console.width), soft_wrap=True)
    if root:
        console.print(f"{len(found)} sets, found under {root}.", highlight=False, soft_wrap=True)
    else:
        console.print(
            f"These need no files; to list a folder, set {FOLDER} or give --data. All known "
            f"names: {', '.join(names())}.",
            highlight=False,
        )
    for each in found:
        if each.problem:
            console.print(f"{each.name}: {each.problem}", highlight=False, soft_wrap=True, markup=False)
    return found


def data_table(found: Sequence[Found], width: int = 80) -> Table:
    """One line per set: name, examples of each split, kind, language and classes.

    On a narrow terminal columns are left out from the right, but never the counts.
    """
    from rich.table import Table

    rows = [["name", *ORDER, "kind", "language", "labels"], *map(_row, found)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    widths[-1] = min(widths[-1], _LABELS_WIDTH)
    ends = [sum(widths[: place + 1]) + 2 * place for place in range(len(widths))]
    shown = max(len(ORDER) + 2, sum(end <= width for end in ends))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(rows[0][:shown]):
        room = width - ends[place - 1] - 2 if place == len(widths) - 1 else None
        table.add_column(
            column,
            no_wrap=True,
            overflow="ellipsis",
            justify="right" if column in ORDER else "left",
            min_width=widths[place],
            max_width=room,
        )
    for row in rows[1:]:
        table.add_row(*row[:shown])
    return table


def _row(found: Found) -> list[str]:
    counts = [f"{found.counts[split]:,}" if split in found.counts else "" for split in ORDER]
    others = [f"{count:,} {split}" for split, count in found.counts.items() if split not in ORDER]
    last = "unreadable, see below" if found.problem else ", ".join(others or found.labels)
    return [found.name, *counts, found.kind, found.language, last]
