"""What `reproduce` prints: the list of entries, and published numbers for which nothing is run."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from gradaccord.reproduce.entry import PAPERS, Entry
from gradaccord.reproduce.grid import WIDTH
from gradaccord.reproduce.table import tables
from gradaccord.reproduce.verdict import command, status_of


def listing(entries: Iterable[Entry], results: Path) -> Iterator[str]:
    """Every entry below its paper: title, status, claim and command."""
    for paper, own in groupby(entries, key=lambda entry: entry.paper):
        yield PAPERS[paper]
        for entry in own:
            yield from _wrapped(f"{entry.name}: {entry.title}", 2)
            yield from _wrapped(f"status: {status_of(entry, results).text}", 4)
            yield from _wrapped(f"claim: {entry.claim}", 4)
            yield f"    {command(entry)}"
        yield ""


def published(entry: Entry) -> Iterator[str]:
    """The claim and the published numbers of an entry for which nothing is run."""
    yield f"{entry.name}: {entry.title}"
    yield from textwrap.wrap(f"Claim: {entry.claim}", WIDTH)
    grids = tables(entry, [])
    for grid in grids:
        yield from ("", *grid.text())
    if not grids:
        yield f"Published in {entry.published.source}; its numbers are not available here."


def _wrapped(text: str, indent: int) -> list[str]:
    """Lines wrapped between words; those after the first are indented by two more spaces."""
    first, others = " " * indent, " " * (indent + 2)
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False
    )
