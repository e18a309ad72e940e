"""The commands `train` and `validate`: options in, a run out."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.errors import INTERRUPTED, user_mistakes

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="A YAML file; see `gradaccord init`.")
]
OverridesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Settings to change, e.g. train.lr=1e-4."),
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", envvar="GRADACCORD_DATA", help="Where the data sets lie."),
]


def train(
    file: FileArgument,
    overrides: OverridesArgument = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The run's folder; default: runs/FILE.")
    ] = None,
    data: DataOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an unfinished run.")] = False,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Deterministic algorithms alone (GPU: slower).")
    ] = False,
) -> None:
    """Train one model on the tasks of a configuration file.

    Everything goes into the run's folder: settings, log, checkpoints, results,
    the best model. Ctrl-C saves; --resume goes on bit for bit. Several processes:
    torchrun -m gradaccord train. For example:

    [bold]gradaccord train trio.yaml method=pcgrad train.epochs=3 --out runs/pcgrad[/bold]
    """
    from rich.console import Console

    from gradaccord.cli.train_screen import Screen, results_table
    from gradaccord.train.config_file import read_config

    console = Console(quiet=os.environ.get("RANK", "0") != "0")  # of several processes the first talks
    screen = Screen(console)
    folder = out if out is not None else Path("runs") / file.stem
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        config = read_config(file, overrides or [])
        from gradaccord.runs.checkpoints import CheckpointError
        from gradaccord.train.not_finite import TrainingError
        from gradaccord.train.run import Interrupted, train_run

        try:
            with screen.running():
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
        except Interrupted as stopped:
            screen.say(f"{stopped} Go on with: {_again()}")
            raise typer.Exit(INTERRUPTED) from None
        except KeyboardInterrupt:
            screen.say("Interrupted before the first step or after the last one; --resume goes on.")
            raise typer.Exit(INTERRUPTED) from None
        except (TrainingError, CheckpointError) as error:
            print(f"gradaccord: {error}", file=sys.stderr)
            raise typer.Exit(1) from None
    if results:
        console.print(results_table(results))
        console.print(f"Written: {folder}", highlight=False, soft_wrap=True)


def _again() -> str:
    """The command that was given, with --resume."""
    given = [part for part in sys.argv[1:] if part != "--resume"]
    return shlex.join(["gradaccord", *given, "--resume"])


def validate(
    file: FileArgument,
    overrides: OverridesArgument = None,
    data: DataOption = None,
) -> None:
    """Check a configuration: read all data, run one batch of each task and one step, and estimate.

    Prints the memory that weights, optimiser and gradients take and how long the
    run would be. For example:

    [bold]gradaccord validate trio.yaml method=pcgrad[/bold]
    """
    from rich.console import Console

    from gradaccord.train.config_file import read_config

    console = Console()
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        config = read_config(file, overrides or [])
        from gradaccord.train.dry_run import dry_run

        for sentence in dry_run(config, data):
            console.print(sentence, highlight=False, markup=False, soft_wrap=True)
