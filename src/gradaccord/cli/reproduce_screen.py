"""What `reproduce` prints: the list of entries, and numbers of a paper that nothing is run for."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from gradaccord.reproduce.entry import PAPERS, Entry
from gradaccord.reproduce.grid import WIDTH
from gradaccord.reproduce.status import command, status_of
from gradaccord.reproduce.table import tables


def listing(entries: Iterable[Entry], results: Path) -> Iterator[str]:
    """Every entry below its paper: title, status, claim and command."""
    for paper, own in groupby(entries, key=lambda entry: entry.paper):
        yield PAPERS[paper]
        for entry in own:
            yield f"  {entry.name}: {entry.title}"
            yield f"    status: {status_of(entry, results).text}"
            yield from textwrap.wrap(
                f"claim: {entry.claim}",
                WIDTH,
                initial_indent=" " * 4,
                subsequent_indent=" " * 6,
                break_on_hyphens=False,
            )
            yield f"    {command(entry)}"
        yield ""


def published(entry: Entry) -> Iterator[str]:
    """An entry of the kind `data`."""
    yield f"{entry.name}: {entry.title}"
    yield from textwrap.wrap(f"Claim: {entry.claim}", WIDTH)
    grids = tables(entry, [])
    for grid in grids:
        yield from ("", *grid.text())
    if not grids:
        yield f"Published in {entry.published.source}; its numbers were not at hand."
