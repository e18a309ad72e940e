"""What a comparison or a sweep shows on a terminal while its runs go on."""

from __future__ import annotations

import math

from rich.console import Console, Group
from rich.text import Text

from gradaccord.cli import screen
from gradaccord.compare.runs import Standing
from gradaccord.runs.duration import duration


class Screen(screen.Screen[Standing]):
    """Give `show` to `execute` while `running()` is entered."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, _picture, _line, refresh=1.0, line_every=15.0)
        self._last = -math.inf  # the first line comes at once
        self._told: set[int] = set()

    def show(self, standing: Standing) -> None:
        """Draw, if it is time to; a run that died is reported at once."""
        for run in standing.runs:
            if run.failure is not None and id(run) not in self._told:
                self._told.add(id(run))
                self.say(f"{run.spec}, seed {run.seed}, {run.failure}")
        super().show(standing)


def _done(standing: Standing) -> str:
    return f"{sum(run.done for run in standing.runs)} of {len(standing.runs)} runs"


def _line(standing: Standing) -> str:
    return f"{_done(standing)}, {standing.share:.0%}, {duration(standing.seconds_left)} left"


def _picture(standing: Standing) -> Group:
    bar = screen.bar(_done(standing), standing.share, f"{duration(standing.seconds_left)} left")
    active = [run for run in standing.runs if run.process is not None and not run.done]
    lines = [f"  {run.spec}, seed {run.seed}: {run.share:.0%}" for run in active]
    return Group(bar, *(Text(line, style="dim") for line in lines))
