"""`gradaccord fewshot`: few-shot learning; one file per command, which calls the library."""

from __future__ import annotations

import typer

from gradaccord.cli.fewshot.docs import docs
from gradaccord.cli.fewshot.evaluate import evaluate_run
from gradaccord.cli.fewshot.figures import figures
from gradaccord.cli.fewshot.options import WithSettings
from gradaccord.cli.fewshot.presets import presets
from gradaccord.cli.fewshot.record import record
from gradaccord.cli.fewshot.train import train

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    no_args_is_help=True,
    help="""Learn to learn from few examples: Reptile, MAML and its family, gradient sharing.

    For example, in ten minutes:

    [bold]gradaccord fewshot train --minutes 10[/bold]
    """,
)
app.command(cls=WithSettings)(train)
app.command("eval")(evaluate_run)
app.command()(figures)
app.command()(record)
app.command()(docs)
app.command()(presets)
