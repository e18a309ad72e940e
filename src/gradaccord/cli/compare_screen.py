"""What a comparison shows on a terminal while its runs go on."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gradaccord.cli.errors import duration
from gradaccord.compare.processes import Progress, Run

REFRESH = 1.0
LINE_EVERY = 15.0


class Screen:
    """Give `show` to `run_all` while `running()` is entered."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._last = 0.0
        self._told: set[int] = set()
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(console=console, auto_refresh=False, transient=True)

    def running(self) -> AbstractContextManager[object]:
        """Keeps the live picture on the terminal; does nothing where there is none."""
        return self._live or nullcontext()

    def show(self, progress: Progress) -> None:
        """Draw, if it is time to; a run that died is reported at once."""
        for run in progress.runs:
            if run.failure is not None and id(run) not in self._told:
                self._told.add(id(run))
                self.console.print(
                    f"{run.spec}, seed {run.seed}, {run.failure}", highlight=False, soft_wrap=True
                )
        now = time.monotonic()
        if now - self._last < (REFRESH if self._live else LINE_EVERY):
            return
        self._last = now
        if self._live:
            self._live.update(_picture(progress), refresh=True)
        else:
            done = sum(run.done for run in progress.runs)
            left = duration(progress.seconds_left)
            self.console.print(
                f"{done} of {len(progress.runs)} runs, {progress.share:.0%}, {left} left",
                highlight=False,
            )


def _picture(progress: Progress) -> Group:
    bar = Table.grid(padding=(0, 1))
    done = sum(run.done for run in progress.runs)
    bar.add_row(
        f"{done} of {len(progress.runs)} runs",
        ProgressBar(total=1.0, completed=progress.share, width=36),
        f"{progress.share:4.0%}",
        f"{duration(progress.seconds_left)} left",
    )
    active = [run for run in progress.runs if run.process is not None and not run.done]
    return Group(bar, *(Text(_line(run), style="dim") for run in active))


def _line(run: Run) -> str:
    return f"  {run.spec}, seed {run.seed}: {run.share:.0%}"
