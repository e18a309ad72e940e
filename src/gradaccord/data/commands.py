"""`gradaccord list data`: a table of the sets that are found under the data folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradaccord.data.readers.found import Found
from gradaccord.data.readers.layouts import ORDER
from gradaccord.data.registry import FOLDER, find, names

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def list_data(folder: str | Path | None = None, console: Console | None = None) -> list[Found]:
    """Print what is found under a folder (else $GRADACCORD_DATA), and return it."""
    from rich.console import Console

    console = console or Console()
    root = folder or os.environ.get(FOLDER)
    found = find(root)
    console.print(data_table(found))
    if root:
        console.print(f"{len(found)} sets, found under {root}.", highlight=False, soft_wrap=True)
    else:
        console.print(
            f"Only what needs no files: set {FOLDER} or give --data to list a folder. Names that can "
            f"be read: {', '.join(names())}.",
            highlight=False,
        )
    for each in found:
        if each.problem:
            console.print(f"{each.name}: {each.problem}", highlight=False, soft_wrap=True, markup=False)
    return found


def data_table(found: Sequence[Found]) -> Table:
    """Name, kind, language, examples of each split, and classes; one line each on 80 columns."""
    from rich.table import Table

    rows = [[*("name", "kind", "language"), *ORDER, "labels"], *map(_row, found)]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(rows[0]):
        last = place == len(rows[0]) - 1  # on a narrow terminal only the labels are cut off
        table.add_column(
            column,
            no_wrap=True,
            overflow="ellipsis",
            justify="right" if column in ORDER else "left",
            min_width=None if last else max(len(row[place]) for row in rows),
        )
    for row in rows[1:]:
        table.add_row(*row)
    return table


def _row(found: Found) -> list[str]:
    counts = [f"{found.counts[split]:,}" if split in found.counts else "" for split in ORDER]
    others = [f"{count:,} {split}" for split, count in found.counts.items() if split not in ORDER]
    last = "unreadable, see below" if found.problem else ", ".join(others or found.labels)
    return [found.name, found.kind, found.language, *counts, last]
