"""The command `compare`: methods over seeds at equal budgets, and a table at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradaccord.cli.errors import INTERRUPTED, missing_package, user_mistakes
from gradaccord.cli.train import DataOption, FileArgument, OverridesArgument

if TYPE_CHECKING:
    from rich.console import Console


def compare(
    file: FileArgument,
    overrides: OverridesArgument = None,
    methods: Annotated[
        str,
        typer.Option(
            metavar="A;B",
            help="e.g. 'pcgrad;dotprod:weight=0.2;sum+smart;stl'; commas do if no options.",
        ),
    ] = "pcgrad,gradvac,sequential_reptile,dotprod",
    baseline: Annotated[str, typer.Option(metavar="A", help="What all are compared with.")] = "sum",
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Runs of each method.")] = 3,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of all runs; default: runs/FILE-compare.")
    ] = None,
    data: DataOption = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs side by side; default: what fits.")
    ] = None,
    controls: Annotated[
        bool, typer.Option(help="Add to each method the control that differs by its idea alone.")
    ] = True,
) -> None:
    """Train several methods on several seeds with equal budgets, and say which differences are real.

    Runs that are finished are reused; a run that dies leaves the others going,
    and the table says so. Every method's control is added by itself. For example:

    [bold]gradaccord compare trio.yaml --methods pcgrad,gradvac,stl --seeds 5[/bold]
    """
    console, say = _console()
    with user_mistakes(ValueError, OSError, ModuleNotFoundError), ExitStack() as stack:
        from gradaccord.cli.compare_screen import Screen
        from gradaccord.compare.processes import jobs_that_fit, run_all
        from gradaccord.compare.setup import set_up
        from gradaccord.compare.specs import Spec, parse_methods, with_controls
        from gradaccord.compare.summary import summarise
        from gradaccord.compare.tables import terminal, write_tables
        from gradaccord.runs.about import about
        from gradaccord.runs.files import ABOUT, write_json
        from gradaccord.runs.lock import locked
        from gradaccord.train.config_file import read_config
        from gradaccord.train.setup import load_problem

        base = read_config(file, overrides or [])
        specs = with_controls(parse_methods(methods), Spec.parse(baseline), controls)
        folder = out if out is not None else Path("runs") / f"{file.stem}-compare"
        stack.enter_context(locked(folder))
        setup = set_up(base, specs, seeds, folder, load_problem(base, data))
        jobs = jobs or jobs_that_fit(setup.memory_mb)
        write_json(folder / ABOUT, about(["gradaccord", *sys.argv[1:]]))
        say(
            f"{len(specs)} methods x {seeds} seeds, {setup.gradients:,} batch gradients each, "
            f"{jobs} side by side: {', '.join(map(str, specs))}."
        )
        screen = Screen(console)
        began = time.monotonic()
        try:
            with screen.running():
                run_all(setup.runs, data=data, jobs=jobs, show=screen.show)
        except KeyboardInterrupt:
            say("Interrupted; every run is saved. The same command goes on.")
            raise typer.Exit(INTERRUPTED) from None
        comparison = summarise(setup.runs)
        written = write_tables(comparison, folder)
    for table in terminal(comparison, console.width):
        console.print(table, "", sep="\n", markup=False)
    for sentence in (*comparison.remarks, *comparison.findings):
        say(sentence)
    say(f"Took {time.monotonic() - began:.0f} s. Written: {', '.join(map(str, written))}")
    say(f"The whole picture: gradaccord report {folder}")


def sweep(
    file: FileArgument,
    ranges: Annotated[
        list[str],
        typer.Argument(metavar="KEY=RANGE", help="method.weight=0.01..1 or method.every=2,5,10."),
    ],
    trials: Annotated[int, typer.Option(min=1, metavar="N", help="Settings to try, in all.")] = 20,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Runs of each setting.")] = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of all runs; default: runs/FILE-sweep.")
    ] = None,
    data: DataOption = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Runs side by side.")] = 1,
) -> None:
    """Search the options of a method or of training by Optuna; scored on dev, kept on disk, resumable.

    The best settings go to best.yaml, all trials to one HTML page. For example:

    [bold]gradaccord sweep trio.yaml method.weight=0.01..1 method.every=2,5 --trials 9[/bold]
    """
    console, say = _console()
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        from gradaccord.cli.compare_screen import Screen
        from gradaccord.compare.sweep import BEST, STORAGE, Range
        from gradaccord.compare.sweep import sweep as search
        from gradaccord.runs.about import about
        from gradaccord.runs.files import ABOUT, write_json
        from gradaccord.runs.lock import locked
        from gradaccord.train.config_file import read_config

        base = read_config(file)
        folder = out if out is not None else Path("runs") / f"{file.stem}-sweep"
        screen = Screen(console)
        try:
            with locked(folder), screen.running():
                write_json(folder / ABOUT, about(["gradaccord", *sys.argv[1:]]))
                study = search(
                    base,
                    [Range.parse(text) for text in ranges],
                    trials=trials,
                    seeds=seeds,
                    folder=folder,
                    data=data,
                    jobs=jobs,
                    show=screen.show,
                    say=say,
                )
        except KeyboardInterrupt:
            say("Interrupted; finished trials are kept. The same command goes on.")
            raise typer.Exit(INTERRUPTED) from None
    if not any(trial.value is not None for trial in study.trials):
        say("No trial finished.")
        raise typer.Exit(1)
    chosen = " ".join(f"{key}={value}" for key, value in study.best_params.items())
    say(f"Best on dev: {study.best_value:.2f} with {chosen}")
    written = [str(folder / STORAGE), str(folder / BEST)]
    try:
        from gradaccord.report.page import write_report

        written.append(str(write_report(folder)))
    except ModuleNotFoundError as error:
        written.append(f"no page ({missing_package(error)})")
    say(f"Written: {', '.join(written)}")
    say(f"Train with them: gradaccord train {folder / BEST}")


def _console() -> tuple[Console, Callable[[str], None]]:
    """The terminal, and what prints a sentence on it as it is."""
    from rich.console import Console

    console = Console()
    return console, lambda text: console.print(text, highlight=False, soft_wrap=True)
