"""`gradaccord fewshot docs`: writes all records into a Markdown page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.exit_codes import needs, user_mistakes
from gradaccord.cli.fewshot.options import MISTAKES


@needs("report")
def docs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the records are kept.")] = Path(
        "results/fewshot"
    ),
    page: Annotated[
        Path,
        typer.Option(metavar="FILE", help="The page; the results go between two comments in it."),
    ] = Path("docs/fewshot.md"),
) -> None:
    """Put all records into a Markdown page: a table beside published numbers, and curves.

    [bold]gradaccord fewshot docs results/fewshot --page docs/fewshot.md[/bold]
    """
    from gradaccord.report.fewshot_results import write_results

    with user_mistakes(*MISTAKES):
        for path in write_results(page, folder):
            print(f"Written: {path}")
