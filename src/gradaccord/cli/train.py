"""The command `train`: trains one model on the tasks of a configuration file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.exit_codes import needs, training, user_mistakes
from gradaccord.cli.options import (
    DataOption,
    FileArgument,
    OverridesArgument,
    ResumeOption,
    RunFolderOption,
)


@needs("train")
def train(
    file: FileArgument,
    overrides: OverridesArgument = None,
    out: RunFolderOption = None,
    data: DataOption = None,
    resume: ResumeOption = False,
    deterministic: Annotated[
        bool,
        typer.Option("--deterministic", help="Use only deterministic algorithms (slower on a GPU)."),
    ] = False,
) -> None:
    """Train one model on the tasks of a configuration file.

    Everything goes into the run's folder: settings, log, checkpoints, results,
    the best model. Ctrl-C saves; --resume continues bit for bit. For several
    processes use torchrun -m gradaccord train. For example:

    [bold]gradaccord train trio.yaml method=pcgrad train.epochs=3 --out runs/pcgrad[/bold]
    """
    from rich.console import Console

    from gradaccord.cli.train_screen import Screen, results_table
    from gradaccord.train.config_file import read_config

    console = Console(quiet=os.environ.get("RANK", "0") != "0")  # only the first process prints
    screen = Screen(console)
    folder = out if out is not None else Path("runs") / file.stem
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        config = read_config(file, overrides or [])
        from gradaccord.train.run import train_run

        with training(screen.say), screen.running():
            results = train_run(
                config,
                folder,
                resume=resume,
                deterministic=deterministic,
                data=data,
                show=screen.show,
                say=screen.say,
                command=["gradaccord", *sys.argv[1:]],
            )
    if results:
        console.print(results_table(results))
        console.print(f"Written: {folder}", highlight=False, soft_wrap=True)
