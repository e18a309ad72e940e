"""The command line: `gradaccord COMMAND`. A command reads its options and calls the library.

Heavy modules are imported inside the commands, so that `gradaccord --help` is fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from textwrap import fill
from typing import Annotated

import typer

from gradaccord.cli.advise import advise
from gradaccord.cli.cache import cache
from gradaccord.cli.compare import compare
from gradaccord.cli.demo import demo
from gradaccord.cli.doctor import doctor
from gradaccord.cli.evaluate import evaluate
from gradaccord.cli.exit_codes import (
    INTERRUPTED,
    UsageError,
    as_sentence,
    check_environment,
    missing_package,
    system_sentence,
)
from gradaccord.cli.export import export
from gradaccord.cli.fewshot import app as fewshot
from gradaccord.cli.init import init
from gradaccord.cli.landscape import landscape
from gradaccord.cli.list import list_
from gradaccord.cli.predict import predict
from gradaccord.cli.pretrain import pretrain
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
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    try:
        if not {"-h", "--help", "--version"} & set(words):
            check_environment(words)
        code = app(words, prog_name="gradaccord", standalone_mode=False)
        sys.stdout.flush()
    except ModuleNotFoundError as error:
        if missing_package(error) == str(error):  # not from an extra: a bug of ours
            raise
        _complain(missing_package(error))
        sys.exit(2)
    except UsageError as error:
        _complain(as_sentence(error))
        sys.exit(2)
    except BrokenPipeError:  # the reader of the output has closed the pipe
        _drop_output()
        sys.exit(1)
    except OSError as error:
        _complain(system_sentence(error))
        _drop_output()
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _complain(sentence: str) -> None:
    """Print an error; a terminal gets line breaks between words, a file gets none."""
    text = f"gradaccord: {sentence}"
    if sys.stderr.isatty():
        width = get_terminal_size().columns
        text = fill(text, width, break_long_words=False, break_on_hyphens=False)
    print(text, file=sys.stderr)


def _drop_output() -> None:
    """Discard what could not be printed: the interpreter would try again when it exits."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


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

    Start here; it takes a few minutes and downloads nothing:

    [bold]gradaccord demo[/bold]
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


app.command()(demo)
app.command()(landscape)
app.command()(train)
app.command()(pretrain)
app.command()(validate)
app.command()(advise)
app.command()(compare)
app.command()(sweep)
app.command()(report)
app.command()(reproduce)
app.command("list")(list_)
app.command()(init)
app.command()(export)
app.command()(evaluate)
app.command()(predict)
app.command()(doctor)
app.command()(cache)
app.add_typer(fewshot, name="fewshot")
