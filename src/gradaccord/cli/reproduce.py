"""The command `reproduce`: a table or figure of a paper, run here, beside the published numbers."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.exit_codes import INTERRUPTED, needs, user_mistakes
from gradaccord.cli.options import ClusterOption, DataOption, cluster_runner


@needs("train")
def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="An entry; without one, all are listed.")
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List every entry: claim, status, command.")
    ] = False,
    small: Annotated[
        bool, typer.Option("--small", help="The setting for two cores instead of the published one.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs of each arm; default: the entry's.")
    ] = None,
    data: DataOption = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs at a time; default: 1.")
    ] = None,
    cluster: ClusterOption = None,
    budget: Annotated[
        str | None, typer.Option(metavar="B", help="Only at this budget: epochs, gradients, seconds.")
    ] = None,
    only: Annotated[str | None, typer.Option(metavar="ARM,...", help="Only these arms.")] = None,
    variant: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Only these variants.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show settings, and time a few steps of each arm.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep models and checkpoints of finished runs.")
    ] = False,
    write_docs: Annotated[
        bool,
        typer.Option("--write-docs", help="Write docs/results.md, docs/claims.md and their figures."),
    ] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the runs.")] = Path(
        "runs/reproduce"
    ),
    results: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the records.")] = Path(
        "results"
    ),
) -> None:
    """Rerun a table or figure of a paper; show our numbers beside the published ones.

    Runs that have a record are not repeated. Ctrl-C saves; the same command
    continues. For example:

    [bold]gradaccord reproduce minbert-table-2 --small --data DIR --jobs 2[/bold]
    """
    from rich.console import Console

    console = Console()
    with user_mistakes(ValueError, OSError, ModuleNotFoundError), ExitStack() as stack:
        from gradaccord.cli.compare_screen import Screen
        from gradaccord.cli.reproduce_screen import listing, published
        from gradaccord.compare.processes import Processes
        from gradaccord.reproduce.differences import current_records
        from gradaccord.reproduce.dry_run import dry_run as rehearse
        from gradaccord.reproduce.entry import DATA, Size, all_entries, find_entry
        from gradaccord.reproduce.page import write_docs as write_pages
        from gradaccord.reproduce.plan import missing, missing_inputs, plan
        from gradaccord.reproduce.run import Folders, run_entry
        from gradaccord.reproduce.table import tables

        entries = all_entries()
        screen = Screen(console)
        if write_docs:
            for path in write_pages(entries, results, Path("docs")):
                screen.say(f"Written: {path}")
            return
        if name is None or list_:
            for line in listing(entries.values(), results):
                screen.say(line)
            return
        entry = find_entry(name, entries)
        if entry.kind == DATA:
            for line in published(entry):
                screen.say(line)
            return
        size: Size = "small" if small else "full"
        design = entry.design(size)
        planned = plan(
            entry, size, seeds=seeds, budget=budget, only=_names(only), variants=_names(variant)
        )
        if dry_run:
            for paragraph in rehearse(entry, size, planned, data):
                for line in (*paragraph, ""):
                    screen.say(line)
            return
        left = missing(planned, results)
        absent = missing_inputs(design, left, data) if left else None
        if absent is not None:
            raise ValueError(absent)
        runner = cluster_runner(cluster, jobs, screen.say, stack) or Processes(jobs or 1)
        screen.say(f"{entry.name}: {len(planned)} runs, {len(left)} to do, {runner}.")
        began = time.monotonic()
        try:
            with screen.running():
                failures = run_entry(
                    entry,
                    planned,
                    Folders(data, out, results),
                    runner=runner,
                    keep=keep,
                    show=screen.show,
                    say=screen.say,
                )
        except KeyboardInterrupt:
            screen.say("Interrupted; every run is saved. The same command continues.")
            raise typer.Exit(INTERRUPTED) from None
    for label, reason in failures.items():
        screen.say(f"Failed: {label}: {reason}")
    screen.say(f"Took {time.monotonic() - began:.0f} s. Records: {results / entry.name}")
    for table in tables(entry, current_records(entry, results, size), size):
        for line in ("", *table.text()):
            screen.say(line)
    if failures:
        raise typer.Exit(1)


def _names(given: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (given or "").split(",") if part.strip())
