"""The command `demo`: four small problems that need no data, and one report about them."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.exit_codes import INTERRUPTED, needs, user_mistakes
from gradaccord.showcase.demo.settings import GRADIENTS, METHODS, DemoSettings


@needs("demo", "report", "train")
def demo(
    seeds: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Runs of each method; standard errors are over these."),
    ] = 3,
    gradients: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Batch gradients of each run.", show_default=str(GRADIENTS)
        ),
    ] = None,
    methods: Annotated[
        str,
        typer.Option(
            metavar="A;B",
            help="As in `compare`; sum and each method's control are added.",
            show_default="pcgrad; sequential_reptile with options; dotprod",
        ),
    ] = METHODS,
    fast: Annotated[
        bool, typer.Option("--fast", help="A tenth of everything: a preview, not a result.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of runs and report; default: runs/demo."),
    ] = None,
) -> None:
    """Show what gradient methods do on four problems that need no data.

    Three optima on a plane; a valley that PCGrad leaves and the sum does not;
    characters learned from one picture each; names in twelve languages and seven
    unseen ones, with what the encoder forgets. Nothing is downloaded, one report
    is written. A few minutes on two cores; after Ctrl-C the same command
    continues. For example:

    [bold]gradaccord demo --seeds 5 --methods 'pcgrad;dotprod'[/bold]
    """
    from rich.console import Console

    console = Console()

    def say(text: str, style: str | None = None, whole: bool = not console.is_terminal) -> None:
        """Print a text; whole: without line breaks, as for a file or to be copied."""
        console.print(text, highlight=False, markup=False, soft_wrap=whole, style=style)

    began = time.monotonic()
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        from gradaccord.data.text import cldr
        from gradaccord.probe.figure import require_matplotlib

        cldr.names("en")
        require_matplotlib()
        from gradaccord.cli import landscape_screen
        from gradaccord.cli.compare_screen import Screen
        from gradaccord.cli.demo_screen import (
            NEXT,
            NOTES,
            methods_table,
            plan_of,
            pretraining_screen,
        )
        from gradaccord.cli.fewshot import screen as fewshot_screen
        from gradaccord.runs.about import about
        from gradaccord.showcase.demo.findings import CAUTION, findings
        from gradaccord.showcase.demo.glyphs import few_shot
        from gradaccord.showcase.demo.names import (
            compare_names,
            demo_methods,
            pretrain,
            pretrain_in_background,
            recipe,
        )
        from gradaccord.showcase.demo.page import write_page
        from gradaccord.showcase.demo.plane import landscape
        from gradaccord.showcase.demo.valley import valleys

        folder = out if out is not None else Path("runs") / ("demo-fast" if fast else "demo")
        settings = DemoSettings(folder, seeds, gradients, methods, fast)
        specs, budget = demo_methods(settings), recipe(settings).train.gradients or 0
        folder.mkdir(parents=True, exist_ok=True)
        about(["gradaccord", *sys.argv[1:]]).write(folder)
        try:
            background = pretrain_in_background(settings)
            say("1 of 4: three optima on a plane. Which methods are trapped in one?", "bold")
            with landscape_screen.progress(console) as show_landscape:
                plane = landscape(settings, show_landscape)
            say(plane.findings[0] + (" That is after a tenth of the steps." if fast else ""))
            say("2 of 4: a valley in which the gradients of two tasks conflict.", "bold")
            valley = valleys(settings)
            say(valley.sentence)
            say("3 of 4: characters learned from one picture each.", "bold")
            with fewshot_screen.progress(console, "MAML on glyphs") as show_few_shot:
                glyphs = few_shot(settings, show_few_shot)
            say(f"4 of 4: names in twelve languages: {plan_of(len(specs), seeds, budget)}.", "bold")
            background.join()
            pretraining = pretraining_screen(console)
            with pretraining.running():
                pretrain(settings, pretraining.show)
            runs = Screen(console)
            with runs.running():
                names = compare_names(settings, runs.show)
            console.print(methods_table(names))
            say(NOTES, "dim")
            found = [*findings(plane, valley, names, glyphs), *([CAUTION] if fast else [])]
            page = write_page(folder, plane, valley, names, glyphs, found)
        except KeyboardInterrupt:
            say("Interrupted; finished parts are kept. The same command continues.")
            raise typer.Exit(INTERRUPTED) from None
    say(f"Took {time.monotonic() - began:.0f} s.")
    for run in names.runs:
        if run.failure is not None:
            say(f"Missing: {run.spec}, seed {run.seed}, {run.failure}.")
    say("What was found:", "bold")
    for sentence in found:
        say(sentence)
    say(f"The report: {page}", "bold", whole=True)
    say("Next, with your own files:", "bold")
    for command in NEXT:
        say(f"  {command}", whole=True)
