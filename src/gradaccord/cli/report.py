"""The command `report`: one HTML page about a run, a comparison or a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.exit_codes import needs, user_mistakes


@needs("report", "train")
def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder of `train`, `compare` or `sweep`.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The page; default: DIR/report.html.")
    ] = None,
) -> None:
    """Write one self-contained HTML page about a run, a comparison or a sweep.

    Sortable tables, learning curves, cosines, forgetting, costs, confusions,
    worst examples, and the exact commands. For example:

    [bold]gradaccord report runs/trio-compare[/bold]
    """
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        from gradaccord.report.page import write_report

        print(f"Written: {write_report(folder, out)}")
