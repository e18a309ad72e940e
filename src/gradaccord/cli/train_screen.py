"""What a run shows on a terminal: one live line per phase, or a line now and then in a file."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager, nullcontext

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gradaccord.cli.errors import duration
from gradaccord.runs.results import Results
from gradaccord.train.progress import Progress

REFRESH = 0.25  # seconds between two pictures
LINE_EVERY = 10.0  # seconds between two lines where there is no terminal


class Screen:
    """Give `show` and `say` to `train` while `running()` is entered."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live: Live | None = None
        self._last = time.monotonic()
        if console.is_terminal:
            # Drawn between two steps, never by a thread beside them: it would slow them down.
            self._live = Live(console=console, auto_refresh=False, transient=True)

    def running(self) -> AbstractContextManager[object]:
        """Keeps the live picture on the terminal; does nothing where there is none."""
        return self._live or nullcontext()

    def say(self, sentence: str) -> None:
        """A line that stays."""
        self.console.print(sentence, highlight=False, markup=False, soft_wrap=True)

    def show(self, progress: Progress) -> None:
        """Draw, if it is time to."""
        now = time.monotonic()
        if now - self._last < (REFRESH if self._live else LINE_EVERY):
            return
        self._last = now
        if self._live:
            self._live.update(picture(progress), refresh=True)
        else:
            self.say(line(progress))


def picture(progress: Progress) -> Group:
    """A bar with the time left, and the losses below it."""
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        progress.phase,
        ProgressBar(total=1.0, completed=progress.share, width=36),
        f"{progress.share:4.0%}",
        f"step {progress.step:,}",
        f"{duration(progress.seconds_left)} left",
    )
    return Group(bar, Text(_numbers(progress), style="dim"))


def line(progress: Progress) -> str:
    """The same in one line."""
    left = duration(progress.seconds_left)
    return (
        f"{progress.phase} {progress.share:.0%}, step {progress.step:,}, {left} left; "
        f"{_numbers(progress)}"
    )


def _numbers(progress: Progress) -> str:
    parts = ["loss " + " ".join(f"{task} {loss:.3f}" for task, loss in progress.losses.items())]
    if not math.isnan(progress.conflicts):
        parts.append(f"conflicts {progress.conflicts:.0%}")
    if progress.scores:
        scores = " ".join(f"{task} {score:.1f}" for task, score in progress.scores.items())
        parts.append(f"dev {scores} (best average {progress.best:.1f})")
    return " · ".join(parts)


def results_table(results: Results) -> Table:
    """Every task's scores on every split."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("task", "split", "scores (the best checkpoint; main metric first)"):
        table.add_column(heading)
    for split in ("dev", "test"):
        for task, scores in results.scores(split).items():
            main = results.metrics[task]
            rest = [f"{k} {v:.2f}" for k, v in scores.items() if k != main]
            table.add_row(task, split, ", ".join([f"{main} {scores[main]:.2f}", *rest]))
    return table
