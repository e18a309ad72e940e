"""The command `compare`: methods over seeds at equal budgets, and a table at the end."""

from __future__ import annotations

import math
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.errors import INTERRUPTED, missing_package, user_mistakes
from gradaccord.cli.train import DataOption, FileArgument, OverridesArgument


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
    from rich.console import Console

    console = Console()
    with user_mistakes(ValueError, OSError, ModuleNotFoundError), ExitStack() as stack:
        from gradaccord.cli.compare_screen import Screen
        from gradaccord.compare import tables
        from gradaccord.compare.budget import budget_of
        from gradaccord.compare.build_methods import check_builds
        from gradaccord.compare.runs import Standing, execute, fitting_jobs, plan
        from gradaccord.compare.specs import Spec, with_controls
        from gradaccord.compare.summary import summarise
        from gradaccord.runs.about import about
        from gradaccord.runs.files import ABOUT, write_json
        from gradaccord.runs.lock import locked
        from gradaccord.train.config_file import read_config
        from gradaccord.train.setup import load_problem

        base = read_config(file, overrides or [])
        specs = [Spec.parse(text) for text in split_methods(methods)]
        first = Spec.parse(baseline)
        wanted = with_controls(specs, first) if controls else list(dict.fromkeys([first, *specs]))
        folder = out if out is not None else Path("runs") / f"{file.stem}-compare"
        stack.enter_context(locked(folder))
        problem = load_problem(base, data)
        gradients, memory = budget_of(base, problem)
        check_builds(base, wanted, gradients, problem)
        del problem  # its memory is the runs'
        side_by_side = fitting_jobs(jobs, memory)
        runs = plan(base, wanted, seeds, gradients, folder)
        write_json(folder / ABOUT, about(["gradaccord", *sys.argv[1:]]))
        console.print(
            f"{len(wanted)} methods x {seeds} seeds, {gradients:,} batch gradients each, "
            f"{side_by_side} side by side: {', '.join(map(str, wanted))}.",
            highlight=False,
            soft_wrap=True,
        )
        screen = Screen(console)
        began = time.monotonic()
        try:
            with screen.running():
                execute(runs, data=data, jobs=side_by_side, show=screen.show)
        except KeyboardInterrupt:
            console.print("Interrupted; every run is saved. The same command goes on.", highlight=False)
            raise typer.Exit(INTERRUPTED) from None
        screen.show(Standing(runs, math.nan))
        summary = summarise(runs)
        written = tables.write(summary, folder)
    for table in tables.terminal(summary, console.width):
        console.print(table, "", sep="\n", markup=False)
    for sentence in [*tables.remarks(summary), *tables.findings(summary)]:
        console.print(sentence, highlight=False, soft_wrap=True)
    console.print(f"Took {time.monotonic() - began:.0f} s. Written: {', '.join(map(str, written))}",
                  highlight=False, soft_wrap=True)  # fmt: skip
    console.print(f"The whole picture: gradaccord report {folder}", highlight=False, soft_wrap=True)


def split_methods(text: str) -> list[str]:
    """At semicolons; at commas where there are none (a comma also parts the options of a method)."""
    separator = ";" if ";" in text or ":" in text else ","
    found = [part.strip() for part in text.split(separator) if part.strip()]
    if not found:
        raise ValueError(
            "`--methods` is empty: name at least one; `gradaccord list methods` shows all."
        )
    return found


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
    """Search the options of a method or of training by Optuna; judged on dev, kept on disk, resumable.

    The best settings go to best.yaml, all trials to one HTML page. For example:

    [bold]gradaccord sweep trio.yaml method.weight=0.01..1 method.every=2,5 --trials 9[/bold]
    """
    from rich.console import Console

    console = Console()
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
                    say=lambda sentence: console.print(sentence, highlight=False, soft_wrap=True),
                )
        except KeyboardInterrupt:
            console.print("Interrupted; finished trials are kept. The same command goes on.")
            raise typer.Exit(INTERRUPTED) from None
    if not any(trial.value is not None for trial in study.trials):
        console.print("No trial finished.")
        raise typer.Exit(1)
    chosen = " ".join(f"{key}={value}" for key, value in study.best_params.items())
    console.print(f"Best on dev: {study.best_value:.2f} with {chosen}", highlight=False, soft_wrap=True)
    written = [str(folder / STORAGE), str(folder / BEST)]
    try:
        from gradaccord.report.page import write_report

        written.append(str(write_report(folder)))
    except ModuleNotFoundError as error:
        written.append(f"no page ({missing_package(error)})")
    console.print(f"Written: {', '.join(written)}", highlight=False, soft_wrap=True)
    console.print(f"Train with them: gradaccord train {folder / BEST}", highlight=False, soft_wrap=True)
