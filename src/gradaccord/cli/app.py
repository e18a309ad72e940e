"""The command line: `gradaccord COMMAND`. A command reads its options and calls the library.

Heavy modules are imported inside the commands, so that `gradaccord --help` is immediate.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from gradaccord.cli.compare import compare
from gradaccord.cli.demo import demo
from gradaccord.cli.doctor import doctor
from gradaccord.cli.exit_codes import INTERRUPTED, UsageError, as_sentence, missing_package
from gradaccord.cli.export import export
from gradaccord.cli.fewshot import app as fewshot
from gradaccord.cli.init import init
from gradaccord.cli.landscape import landscape
from gradaccord.cli.list import list_
from gradaccord.cli.predict import predict
from gradaccord.cli.report import report
from gradaccord.cli.reproduce import reproduce
from gradaccord.cli.sweep import sweep
from gradaccord.cli.train import train
from gradaccord.cli.validate import validate
from gradaccord.version import __version__

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
        print(f"gradaccord: {as_sentence(error)}", file=sys.stderr)
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


app.command()(demo)
app.command()(landscape)
app.command()(train)
app.command()(validate)
app.command()(compare)
app.command()(sweep)
app.command()(report)
app.command()(reproduce)
app.command("list")(list_)
app.command()(init)
app.command()(export)
app.command()(predict)
app.command()(doctor)
app.add_typer(fewshot, name="fewshot")
