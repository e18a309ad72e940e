"""`gradaccord list data`: a table of the sets that are found under the data folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradaccord.data.readers.found import Found
from gradaccord.data.registry import FOLDER, find, names

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SHOWN_LABELS = 5


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
    """Name, kind, language, examples of each split, and classes."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "kind", "language", "examples", "labels"):
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for each in found:
        counts = " · ".join(f"{count:,} {split}" for split, count in each.counts.items())
        table.add_row(
            each.name, each.kind, each.language, counts or "unreadable, see below", _labels(each.labels)
        )
    return table


def _labels(labels: Sequence[str]) -> str:
    shown = ", ".join(labels[:SHOWN_LABELS])
    return f"{shown}, … ({len(labels)})" if len(labels) > SHOWN_LABELS else shown
