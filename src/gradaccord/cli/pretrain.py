"""The command `pretrain`: masked-LM pretraining of an encoder, from scratch or continued."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.exit_codes import needs, training, user_mistakes
from gradaccord.cli.options import (
    DataOption,
    OverridesArgument,
    ResumeOption,
    RunFolderOption,
)


@needs("train")
def pretrain(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A YAML file, or a recipe: multilingual-small.")
    ],
    overrides: OverridesArgument = None,
    out: RunFolderOption = None,
    data: DataOption = None,
    resume: ResumeOption = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Count tokens, take a few steps, estimate the time."),
    ] = False,
) -> None:
    """Pretrain an encoder to predict masked tokens, from scratch or continued.

    Texts are files, folders or data sets, by language; a tokenizer is trained
    on them if none is named. DIR/model can be loaded by AutoModel, and named as
    `model` in other configurations. Ctrl-C saves; --resume continues bit for
    bit. For several processes use torchrun -m gradaccord pretrain. For example:

    [bold]gradaccord pretrain multilingual-small train.steps=20000 --data DIR[/bold]
    """
    from rich.console import Console

    from gradaccord.pretrain.config import read_pretrain_config

    console = Console(quiet=os.environ.get("RANK", "0") != "0")  # only the first process prints
    folder = out if out is not None else Path("runs") / file.stem
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        config = read_pretrain_config(file, overrides or [])
        from gradaccord.cli.pretrain_screen import PretrainScreen, losses_table
        from gradaccord.cli.screen import watching
        from gradaccord.pretrain import run

        if dry_run:
            with watching(console) as watch:
                for sentence in run.dry_run(config, data, watch):
                    watch.say(sentence)
            return
        screen = PretrainScreen(console)
        with training(screen.say), screen.running():
            results = run.pretrain(
                config,
                folder,
                resume=resume,
                data=data,
                show=screen.show,
                say=screen.say,
                command=["gradaccord", *sys.argv[1:]],
            )
    console.print(losses_table(results))
    console.print(f"Written: {folder / 'model'}", highlight=False, soft_wrap=True)
