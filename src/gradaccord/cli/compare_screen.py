"""What a comparison or a sweep shows on a terminal while its runs are going."""

from __future__ import annotations

import math

from rich.console import Console, Group
from rich.text import Text

from gradaccord.cli import screen
from gradaccord.compare.processes import Progress
from gradaccord.runs.duration import duration


class Screen(screen.Screen[Progress]):
    """Give `show` to `run_all` while `running()` is entered."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, _picture, _line, refresh=1.0, line_every=15.0)
        self._last = -math.inf  # the first line comes at once
        self._reported: set[int] = set()

    def show(self, progress: Progress) -> None:
        """Draw, if it is time to; a run that died is reported at once."""
        for run in progress.runs:
            if run.failure is not None and id(run) not in self._reported:
                self._reported.add(id(run))
                self.say(f"{run.label}, {run.failure}")
        super().show(progress)


def _done(progress: Progress) -> str:
    return f"{sum(run.done for run in progress.runs)} of {len(progress.runs)} runs"


def _line(progress: Progress) -> str:
    return f"{_done(progress)}, {progress.share:.0%}, {duration(progress.seconds_left)} left"


def _picture(progress: Progress) -> Group:
    bar = screen.bar(_done(progress), progress.share, f"{duration(progress.seconds_left)} left")
    active = [run for run in progress.runs if run.process is not None and not run.done]
    lines = [f"  {run.label}: {run.share:.0%}{run.now and ', '}{run.now}" for run in active]
    return Group(bar, *(Text(line, style="dim") for line in lines))
