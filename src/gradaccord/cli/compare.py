"""The command `compare`: methods over seeds at equal budgets, and a table at the end."""

from __future__ import annotations

import math
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.errors import INTERRUPTED, needs, user_mistakes
from gradaccord.cli.options import DataOption, FileArgument, OverridesArgument


@needs("train")
def compare(
    file: FileArgument,
    overrides: OverridesArgument = None,
    methods: Annotated[
        str,
        typer.Option(
            metavar="A;B",
            help="Methods with their options: 'pcgrad; dotprod:weight=0.2; sum+smart; stl'. "
            "Commas may part them if none has options.",
            show_default="pcgrad, gradvac, sequential_reptile, dotprod",
        ),
    ] = "pcgrad,gradvac,sequential_reptile,dotprod",
    baseline: Annotated[
        str, typer.Option(metavar="A", help="The method that all are compared with.")
    ] = "sum",
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Runs of each method.")] = 3,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of all runs; default: runs/FILE-compare.")
    ] = None,
    data: DataOption = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs at a time; default: what fits.")
    ] = None,
    controls: Annotated[
        bool, typer.Option(help="Add each method's control: the same steps without its idea.")
    ] = True,
) -> None:
    """Train several methods on several seeds at equal budgets, and test their differences.

    Finished runs are reused. A run that fails does not stop the others; the table
    marks it. Every method's control is added. For example:

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
        from gradaccord.compare.specs import Spec, split_methods, with_controls
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
