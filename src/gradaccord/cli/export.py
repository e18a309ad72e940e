"""The command `export`: a run's best model as a Hugging Face folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.exit_codes import needs, user_mistakes


@needs("train")
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write.")] = Path("exported"),
) -> None:
    """Write a run's best model as a Hugging Face folder with a model card and its results.

    [bold]gradaccord export runs/trio --out trio-model[/bold]
    """
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        from rich.console import Console

        from gradaccord.cli.screen import watching
        from gradaccord.train.export import export as write

        with watching(Console(stderr=True)) as watch:
            written = write(run, out, watch)
        print(f"Written: {written}")
