"""The command `export`: writes a run's best model as a Hugging Face folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.exit_codes import needs, user_mistakes


@needs("train")
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write.")] = Path("exported"),
    push: Annotated[
        str | None,
        typer.Option("--push", metavar="USER/NAME", help="Also upload it to the Hugging Face hub."),
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="With --push: a repository that only you can see.")
    ] = False,
) -> None:
    """Write a run's best model as a Hugging Face folder with a model card and its results.

    [bold]gradaccord export runs/trio --out trio-model[/bold]

    [bold]gradaccord export runs/trio --push me/trio --private[/bold]
    """
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        from rich.console import Console

        from gradaccord.cli.screen import watching
        from gradaccord.train import push as hub
        from gradaccord.train.export import export as write

        if private and push is None:
            raise ValueError(
                "`--private` needs --push: give --push USER/NAME, or leave `--private` out."
            )
        if push is not None:
            hub.check_push(push)
        with watching(Console(stderr=True)) as watch:
            written = write(run, out, watch)
        print(f"Written: {written}")
        if push is not None:
            print(f"Pushed: {hub.push(out, push, private)}")
