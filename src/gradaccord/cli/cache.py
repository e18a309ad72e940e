"""The command `cache`: lists, limits or clears the files that are kept on disk between runs."""

from __future__ import annotations

import time
from enum import Enum
from typing import Annotated

import typer

from gradaccord.cli.exit_codes import needs, user_mistakes

UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


class Action(str, Enum):
    """What can be done to the cache."""

    list = "list"
    size = "size"
    limit = "limit"
    clear = "clear"


@needs("train")
def cache(
    action: Annotated[Action, typer.Argument(help="What to do.")] = Action.list,
    value: Annotated[
        str | None, typer.Argument(metavar="SIZE", help="For limit: a size such as 5GB or 500MB.")
    ] = None,
) -> None:
    """Show, limit or clear the cache on disk: texts, tokens, decoded images.

    The folder is $GRADACCORD_CACHE, or ~/.cache/gradaccord. Above the limit,
    the files unused for longest are removed. All are made again when needed.

    [bold]gradaccord cache limit 5GB[/bold]
    """
    from gradaccord.data.files import cache_folder as kept

    with user_mistakes(ValueError, OSError):
        if value is not None and action != Action.limit:
            raise ValueError(f"SIZE is {value!r}, which only `limit` takes: leave it out.")
        if action == Action.list:
            _list()
        elif action == Action.clear:
            gone = kept.clear()
            print(f"Removed {len(gone)} files, {shown(sum(one.size for one in gone))}.")
        elif value is not None:
            kept.set_cache_limit(size_of(value))
        if action != Action.clear:
            total = sum(one.size for one in kept.entries())
            print(f"{shown(total)} of at most {shown(kept.cache_limit())} in {kept.cache_folder()}.")


def _list() -> None:
    from rich.console import Console
    from rich.table import Table

    from gradaccord.data.files.cache_folder import entries

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("kind")
    table.add_column("size", justify="right")
    table.add_column("last used")
    table.add_column("what")
    for one in entries():
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.used))
        table.add_row(one.kind, shown(one.size), used, one.what)
    if table.row_count:
        Console().print(table, markup=False)


def shown(size: int) -> str:
    """A size in a readable unit, such as 5.0 GB."""
    unit = next((unit for unit in reversed(UNITS) if size >= UNITS[unit]), "KB")
    return f"{size / UNITS[unit]:.1f} {unit}"


def size_of(written: str) -> int:
    """Bytes of "5GB", "500 MB" or a bare number of bytes."""
    text = written.strip().upper()
    unit = next((unit for unit in UNITS if text.endswith(unit)), "")
    try:
        size = float(text.removesuffix(unit)) * UNITS.get(unit, 1)
    except ValueError:
        size = -1.0
    if not 0 <= size < 10**18:
        raise ValueError(f"SIZE is {written!r}: give a size such as 5GB or 500MB.")
    return int(size)
