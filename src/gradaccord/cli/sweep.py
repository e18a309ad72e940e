"""The command `sweep`: searches hyper-parameters with Optuna."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.exit_codes import INTERRUPTED, missing_package, needs, user_mistakes
from gradaccord.cli.options import ClusterOption, DataOption, FileArgument, cluster_runner


@needs("sweep", "train")
def sweep(
    file: FileArgument,
    ranges: Annotated[
        list[str],
        typer.Argument(metavar="KEY=RANGE", help="train.lr=1e-5..1e-3 or train.batch_size=8,16,32."),
    ],
    trials: Annotated[int, typer.Option(min=1, metavar="N", help="Settings to try in all.")] = 20,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Runs of each setting.")] = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of all runs; default: runs/FILE-sweep.")
    ] = None,
    data: DataOption = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs at a time; default: 1.")
    ] = None,
    cluster: ClusterOption = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="journal|URL",
            envvar="GRADACCORD_STORAGE",
            help="Where Optuna stores trials, to run the same command on several machines.",
        ),
    ] = None,
) -> None:
    """Search options of a method or of training with Optuna.

    Trials are scored on dev and kept on disk; the same command resumes. The best
    settings go to best.yaml, all trials to one HTML page. For example:

    [bold]gradaccord sweep trio.yaml train.lr=1e-5..1e-3 train.epochs=1,2 --trials 9[/bold]
    """
    from rich.console import Console

    console = Console()
    with user_mistakes(ValueError, OSError, ModuleNotFoundError), ExitStack() as stack:
        from gradaccord.cli.compare_screen import Screen
        from gradaccord.compare.processes import Processes
        from gradaccord.compare.study import file_of, without_password
        from gradaccord.compare.sweep import BEST, Range, one_command_in, settings_text
        from gradaccord.compare.sweep import sweep as search
        from gradaccord.runs.about import about
        from gradaccord.runs.lock import locked
        from gradaccord.train.config_file import read_config

        base = read_config(file)
        folder = out if out is not None else Path("runs") / f"{file.stem}-sweep"
        screen = Screen(console)
        runner = cluster_runner(cluster, jobs, screen.say, stack) or Processes(jobs or 1)
        if cluster is not None:
            screen.say(f"{trials} trials {runner}.")
        if storage is None:  # else the trials are locked one by one
            stack.enter_context(locked(folder))
        try:
            with screen.running():
                folder.mkdir(parents=True, exist_ok=True)
                words = [without_password(word) for word in sys.argv[1:]]
                with one_command_in(folder):
                    about(["gradaccord", *words]).write(folder)
                study = search(
                    base,
                    [Range.parse(text) for text in ranges],
                    trials=trials,
                    seeds=seeds,
                    folder=folder,
                    data=data,
                    runner=runner,
                    storage=storage,
                    show=screen.show,
                    say=screen.say,
                )
        except KeyboardInterrupt:
            screen.say("Interrupted; finished trials are kept. The same command continues.")
            raise typer.Exit(INTERRUPTED) from None
    if not any(trial.value is not None for trial in study.trials):
        screen.say("No trial finished.")
        raise typer.Exit(1)
    screen.say(f"Best on dev: {study.best_value:.2f} with {settings_text(study.best_params)}")
    written = [str(file_of(folder, storage)), str(folder / BEST)]
    try:
        from gradaccord.report.page import write_report

        with one_command_in(folder):
            written.append(str(write_report(folder)))
    except ModuleNotFoundError as error:
        written.append(f"no page ({missing_package(error)})")
    screen.say(f"Written: {', '.join(written)}")
    screen.say(f"Train with them: gradaccord train {folder / BEST}")
