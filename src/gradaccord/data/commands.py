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

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "kind", "language"):
        table.add_column(column, no_wrap=True, overflow="ellipsis")
    for split in ORDER:
        table.add_column(split, justify="right", no_wrap=True)
    table.add_column("labels", no_wrap=True, overflow="ellipsis")
    for each in found:
        counts = [f"{each.counts[split]:,}" if split in each.counts else "" for split in ORDER]
        others = [f"{n:,} {split}" for split, n in each.counts.items() if split not in ORDER]
        last = "unreadable, see below" if each.problem else ", ".join(others or each.labels)
        table.add_row(each.name, each.kind, each.language, *counts, last)
    return table
