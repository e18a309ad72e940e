"""The command `landscape`: a toy problem with three optima, and which methods are trapped in one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.exit_codes import needs, user_mistakes


@needs("report")
def landscape(
    seeds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Runs of each method that draws random numbers.")
    ] = 32,
    fast: Annotated[
        bool, typer.Option("--fast", help="A tenth of the steps: a preview, not a result.")
    ] = False,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the figure (PNG, SVG) and results.json.")
    ] = Path("runs/landscape"),
) -> None:
    """Show which methods are trapped by one task's optimum, on a plane with three tasks.

    The synthetic problem of the Sequential Reptile paper; takes under a minute.
    For example:

    [bold]gradaccord landscape --seeds 16 --out results[/bold]
    """
    from rich.console import Console

    from gradaccord.probe.figure import require_matplotlib

    with user_mistakes(ModuleNotFoundError, OSError):
        require_matplotlib()
        out.mkdir(parents=True, exist_ok=True)
    from gradaccord.cli.landscape_screen import introduction, progress, tables
    from gradaccord.showcase.landscape.figure import draw
    from gradaccord.showcase.landscape.runs import LandscapeSettings, Result, run

    tenth = 10 if fast else 1
    steps, outer_steps = LandscapeSettings.steps // tenth, LandscapeSettings.outer_steps // tenth
    console = Console()
    console.print(introduction(LandscapeSettings(seeds, steps, outer_steps)), highlight=False)
    with progress(console) as show:
        result = run(seeds, steps=steps, outer_steps=outer_steps, progress=show)
    console.print(tables(result))
    console.print(f"Took {result.seconds:.0f} s.", highlight=False)
    result.write(out)
    for path in [*draw(result, out), out / Result.FILE]:
        console.print(f"Written: {path}", highlight=False, soft_wrap=True)
