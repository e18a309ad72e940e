"""The command `advise`: which methods are worth comparing on your own tasks, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from gradaccord.cli.exit_codes import needs, user_mistakes
from gradaccord.cli.options import DataOption, FileArgument, OverridesArgument


@needs("train")
def advise(
    file: FileArgument,
    overrides: OverridesArgument = None,
    data: DataOption = None,
    seconds: Annotated[
        float, typer.Option(min=5, metavar="N", help="About how long to measure, after loading.")
    ] = 60,
) -> None:
    """Measure on your own tasks which methods are worth comparing, and say why.

    Trains a little, compares the tasks' gradients on many batches with the noise
    of single batches, and times the methods on this machine. It ends with the
    command to run; where nothing conflicts, plain training is enough.
    Nothing is written. For example:

    [bold]gradaccord advise trio.yaml --data DIR[/bold]
    """
    from rich.console import Console

    console = Console()
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        from gradaccord.cli.advise_screen import measuring, shown
        from gradaccord.cli.screen import watching
        from gradaccord.compare.advisor import advise as measure
        from gradaccord.compare.advisor import compare_command
        from gradaccord.runs.exceptions import TrainingError
        from gradaccord.train.config_file import read_config
        from gradaccord.train.problem import load_problem
        from gradaccord.train.run import seed_everything

        config = read_config(file, overrides or [])
        seed_everything(config.train.seed)  # new heads get the same weights as in a run
        with watching(console) as watch:
            problem = load_problem(config, data, watch)
        try:
            with measuring(console) as watch:
                advice = measure(config, problem, seconds=seconds, watch=watch)
        except TrainingError as error:
            raise ValueError(str(error)) from error
    rest = (*(overrides or ()), *(("--data", str(data)) if data is not None else ()))
    console.print(shown(advice))
    command = compare_command(advice, config, str(file), rest)
    console.print(f"  {command}", style="bold", highlight=False, markup=False, soft_wrap=True)
