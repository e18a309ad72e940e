"""The command line: `gradaccord COMMAND`. A command reads its options and calls the library.

Heavy modules are imported inside the commands, so that `gradaccord --help` is immediate.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gradaccord import __version__
from gradaccord.cli import compare as comparing
from gradaccord.cli import demo as demonstrating
from gradaccord.cli import report as reporting
from gradaccord.cli import tools as tools
from gradaccord.cli import train as training
from gradaccord.cli.errors import INTERRUPTED, UsageError, missing_package, needs, user_mistakes
from gradaccord.cli.fewshot import app as fewshot

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. A user's mistake gets one sentence and exit code 2."""
    try:
        code = app(arguments, prog_name="gradaccord", standalone_mode=False)
    except ModuleNotFoundError as error:
        if missing_package(error) == str(error):  # no package of an extra: a fault of ours
            raise
        print(f"gradaccord: {missing_package(error)}", file=sys.stderr)
        sys.exit(2)
    except UsageError as error:
        message = getattr(error, "format_message", error.__str__)().strip()
        print(f"gradaccord: {message}{'' if message[-1:] in '.?' else '.'}", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gradaccord {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Train neural networks with gradients that agree.

    Start here; it takes about five minutes and downloads nothing:

    [bold]gradaccord demo[/bold]
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


app.command()(needs("demo", "report", "train")(demonstrating.demo))


@app.command()
@needs("report")
def landscape(
    seeds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Runs of each method that draws at random.")
    ] = 32,
    fast: Annotated[
        bool, typer.Option("--fast", help="A tenth of the steps: a look, not a result.")
    ] = False,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the figure (PNG, SVG) and results.json.")
    ] = Path("runs/landscape"),
) -> None:
    """Show which methods are trapped by a task's own optimum, on a plane with three of them.

    The synthetic problem of Sequential Reptile's paper; takes well under a minute. For example:

    [bold]gradaccord landscape --seeds 16 --out results[/bold]
    """
    from rich.console import Console

    from gradaccord.probe.figure import require_matplotlib

    with user_mistakes(ModuleNotFoundError, OSError):
        require_matplotlib()
        out.mkdir(parents=True, exist_ok=True)
    from gradaccord.cli.landscape_screen import introduction, progress, tables
    from gradaccord.showcase.landscape.figure import draw
    from gradaccord.showcase.landscape.runs import Settings, run

    tenth = 10 if fast else 1
    steps, outer_steps = Settings.steps // tenth, Settings.outer_steps // tenth
    console = Console()
    console.print(introduction(Settings(seeds, steps, outer_steps)), highlight=False)
    with progress(console) as show:
        result = run(seeds, steps=steps, outer_steps=outer_steps, progress=show)
    console.print(tables(result))
    console.print(f"Took {result.seconds:.0f} s.", highlight=False)
    for path in [*draw(result, out), result.save(out)]:
        console.print(f"Written: {path}", highlight=False, soft_wrap=True)


app.command()(needs("train")(training.train))
app.command()(needs("train")(training.validate))
app.command()(needs("train")(comparing.compare))
app.command()(needs("sweep", "train")(comparing.sweep))
app.command()(needs("report", "train")(reporting.report))
app.command("list")(tools.list_)
app.command()(tools.init)
app.command()(needs("train")(tools.export))
app.command()(needs("train")(tools.predict))
app.command()(tools.doctor)
app.add_typer(fewshot, name="fewshot")
