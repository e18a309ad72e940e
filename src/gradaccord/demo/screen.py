"""What the demo shows on a terminal: a live table while it runs, and the table of results."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager, nullcontext

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gradaccord.demo.compare import PROBE, Standing
from gradaccord.demo.results import Comparison, finding, mean_and_error
from gradaccord.demo.settings import BASELINE, Settings

REFRESH = 0.25  # seconds between two pictures of the live table
LINE_EVERY = 10.0  # seconds between two lines where there is no terminal

HEADINGS = ("accuracy %", f"vs {BASELINE}", "loss", "cosine", "conflicts", "at end", "time")
NOTES = f"""\
accuracy   on concepts that were seen in no language, mean over languages
loss       in training, over the last tenth of the steps
cosine     between the languages' gradients in a step; conflicts: share below 0;
           at end: after training, on up to {PROBE} names a language
time       to get the gradient, relative to sum(losses).backward()"""


class Screen:
    """Give `show` to `compare` while `running()` is entered."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live: Live | None = None
        self._last = time.monotonic()
        if console.is_terminal:
            # Drawn between two steps, never by a thread beside them: it would disturb the timing.
            self._live = Live(console=console, auto_refresh=False, transient=True)

    def running(self) -> AbstractContextManager[object]:
        """Keeps the live table on the terminal; does nothing where there is none."""
        return self._live or nullcontext()

    def show(self, standing: Standing) -> None:
        """Draw, if it is time to."""
        now = time.monotonic()
        if now - self._last < (REFRESH if self._live else LINE_EVERY):
            return
        self._last = now
        if self._live:
            self._live.update(live_table(standing), refresh=True)
        else:
            self.console.print(line(standing), soft_wrap=True)


def introduction(settings: Settings) -> str:
    """What is about to happen."""
    return (
        "Twelve languages, one model, a head each: is this name a territory, a city,\n"
        "a language, a currency or a unit? Nothing is downloaded.\n"
        f"{len(settings.methods)} methods, {_count(settings.seeds, 'seed')}, {settings.steps} steps of "
        f"{settings.languages_per_step} languages. Ctrl-C shows what is done so far."
    )


def live_table(standing: Standing) -> Table:
    """The methods of one seed on their way."""
    settings = standing.settings
    table = _table(
        f"seed {standing.seed + 1} of {settings.seeds}, {_clock(standing.seconds_left)} left"
    )
    table.add_column("method")
    table.add_column(f"step {standing.step}/{settings.steps}", width=18)
    for heading in ("loss", "cosine", "conflicts", "accuracy (glance)"):
        table.add_column(heading, justify="right")
    for method, latest in standing.latest.items():
        table.add_row(
            method,
            ProgressBar(settings.steps, standing.step, width=18),
            f"{latest['loss']:.3f}",
            f"{latest['cosine']:+.3f}",
            f"{latest['conflicts']:.0%}",
            "" if math.isnan(latest["accuracy"]) else f"{latest['accuracy']:.1%}",
        )
    return table


def line(standing: Standing) -> str:
    """The same as one line of plain text."""
    losses = ", ".join(f"{method} {latest['loss']:.3f}" for method, latest in standing.latest.items())
    return (
        f"seed {standing.seed + 1}/{standing.settings.seeds}  "
        f"step {standing.step}/{standing.settings.steps}  "
        f"{_clock(standing.seconds_left)} left  loss: {losses}"
    )


def results(comparison: Comparison) -> Group:
    """The table that the demo is for, what it says, and how to read it."""
    asked = comparison.settings
    title = f"Mean ± standard error over {_count(comparison.seeds, 'seed')}"
    if comparison.interrupted:
        title = (
            f"Interrupted: {comparison.seeds} of {_count(asked.seeds, 'seed')}, "
            f"{comparison.steps} of {asked.steps} steps"
        )
    table = _table(title)
    table.add_column("method")
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for method in comparison.outcomes:
        table.add_row(
            method,
            _plus_minus(comparison.accuracies(method), ".1f"),
            "" if method == BASELINE else _plus_minus(comparison.differences(method), "+.2f"),
            f"{comparison.mean(method, 'train_loss'):.3f}",
            f"{comparison.mean(method, 'cosine'):+.3f}",
            f"{comparison.mean(method, 'conflicts'):.0%}",
            f"{comparison.mean(method, 'end_cosine'):+.3f}",
            f"{comparison.mean(method, 'time_ratio'):.2f}x",
        )
    return Group(table, Text(finding(comparison), style="bold"), "", Text(NOTES, style="dim"))


def _table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def _plus_minus(values: list[float], form: str) -> str:
    mean, error = mean_and_error(values)
    return f"{mean:{form}}" if error is None else f"{mean:{form}} ± {error:{form.removeprefix('+')}}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
