"""The command `compare`: trains methods on several seeds at equal budgets, and compares them."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.exit_codes import INTERRUPTED, needs, user_mistakes
from gradaccord.cli.options import (
    ClusterOption,
    DataOption,
    FileArgument,
    OverridesArgument,
    cluster_runner,
)
from gradaccord.methods.registry import BASELINE


class Budget(str, Enum):
    """The choices of --budget."""

    epochs = "epochs"
    gradients = "gradients"
    seconds = "seconds"


@needs("train")
def compare(
    file: FileArgument,
    overrides: OverridesArgument = None,
    methods: Annotated[
        str,
        typer.Option(
            metavar="A;B",
            help="Methods with their options: 'pcgrad; dotprod:weight=0.2; sum+smart; stl'. "
            "Commas may separate them if none has options.",
            show_default="pcgrad, gradvac, sequential_reptile, dotprod",
        ),
    ] = "pcgrad,gradvac,sequential_reptile,dotprod",
    baseline: Annotated[
        str, typer.Option(metavar="A", help="The method that the others are compared with.")
    ] = BASELINE,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Runs of each method.")] = 3,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of all runs; default: runs/FILE-compare.")
    ] = None,
    data: DataOption = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs at a time; default: as many as fit.")
    ] = None,
    cluster: ClusterOption = None,
    budget: Annotated[
        Budget,
        typer.Option(
            metavar="UNIT",
            help="What each run may spend: epochs, batch gradients or processor seconds.",
        ),
    ] = Budget.gradients,
    controls: Annotated[
        bool, typer.Option(help="Add each method's control: the same steps without its idea.")
    ] = True,
    wide: Annotated[
        bool, typer.Option("--wide", help="Also print every task, p value and cost.")
    ] = False,
) -> None:
    """Train several methods on several seeds at equal budgets, and test their differences.

    Finished runs are reused. A run that fails does not stop the others; the table
    marks it. Every method's control is added. A summary is printed, all results
    are written; the same command with --wide prints them all. For example:

    [bold]gradaccord compare trio.yaml --methods pcgrad,gradvac,stl --seeds 5[/bold]
    """
    from rich.console import Console

    console = Console()
    with user_mistakes(ValueError, OSError, ModuleNotFoundError), ExitStack() as stack:
        from gradaccord.cli.compare_screen import Screen, summary_notes, summary_table, terminal
        from gradaccord.cli.screen import watching
        from gradaccord.compare.comparison import Comparison
        from gradaccord.compare.processes import Processes, jobs_that_fit, run_all
        from gradaccord.compare.setup import set_up
        from gradaccord.compare.specs import Spec, parse_methods, with_controls
        from gradaccord.compare.summary import lost_runs, summarise
        from gradaccord.compare.tables import write_tables
        from gradaccord.runs.about import about
        from gradaccord.runs.lock import locked
        from gradaccord.train.config_file import read_config
        from gradaccord.train.problem import load_problem

        screen = Screen(console)
        runner = cluster_runner(cluster, jobs, screen.say, stack)
        base = read_config(file, overrides or [])
        specs = with_controls(parse_methods(methods), Spec.parse(baseline), controls)
        folder = out if out is not None else Path("runs") / f"{file.stem}-compare"
        stack.enter_context(locked(folder))
        with watching(console) as watch:
            setup = set_up(base, specs, seeds, folder, load_problem(base, data, watch), budget.value)
        runner = runner or Processes(jobs or jobs_that_fit(setup.memory_mb))
        about(["gradaccord", *sys.argv[1:]]).write(folder)
        screen.say(
            f"{len(specs)} methods x {seeds} seed{'s' * (seeds > 1)}, {setup.budget.text} each, "
            f"{runner}: {', '.join(map(str, specs))}. {setup.budget.sentence}"
        )
        (folder / Comparison.FILE).unlink(missing_ok=True)  # written again after the last run
        began = time.monotonic()
        try:
            with screen.running():
                run_all(setup.runs, data=data, runner=runner, show=screen.show, say=screen.say)
        except KeyboardInterrupt:
            done = sum(run.results is not None for run in setup.runs)
            screen.say(
                f"Interrupted; {done} of {len(setup.runs)} runs are finished, and every run is saved. "
                "The same command continues."
            )
            raise typer.Exit(INTERRUPTED) from None
        comparison = summarise(setup.runs)
        written = write_tables(comparison, folder)
    console.print(summary_table(comparison), "", sep="\n", markup=False)
    for sentence in (*summary_notes(comparison), *lost_runs(comparison), *comparison.findings):
        screen.say(sentence)
    if wide:
        for table in terminal(comparison, console.width):
            console.print("", table, sep="\n", markup=False)
        for sentence in ("", *comparison.remarks):
            screen.say(sentence)
    screen.say(f"Took {time.monotonic() - began:.0f} s. Written: {', '.join(map(str, written))}")
    screen.say(
        f"All results on one page: gradaccord report {folder}"
        + ("" if wide else "; tasks, p values and costs on the screen: --wide")
    )
