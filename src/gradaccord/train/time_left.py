"""How long a run still takes: its steps, its evaluations with their probes, and the last scores."""

from __future__ import annotations

import math

FORWARD = 1 / 3  # of a training step's time is its forward pass, about


class TimeLeft:
    """Estimates the time left from the steps and evaluations of a session.

    every: `train.evaluate_every`. dev_rows, test_rows: of all tasks.
    """

    def __init__(self, every: int | float, dev_rows: int, test_rows: int) -> None:
        self.every = every
        self.dev_rows, self.test_rows = dev_rows, test_rows
        self._evaluation = math.nan  # seconds of the last one
        self.begin(0.0)

    def begin(self, share: float) -> None:
        """A phase begins, or continues at this share of it."""
        self._start = self._share = share
        self._steps = self._rows = 0
        self._training = 0.0

    def stepped(self, seconds: float, share: float, rows: int) -> None:
        """A step was taken on this many rows. share: how much of the phase is done."""
        self._training += seconds
        self._share = share
        self._steps += 1
        self._rows += rows

    def evaluated(self, seconds: float) -> None:
        """Dev was evaluated, and the probes measured."""
        self._evaluation = seconds

    def seconds(self, step: int | None) -> float:
        """Seconds to the end of the phase. step: given in the last phase, to count its evaluations."""
        if not self._steps or self._share <= self._start:
            return math.nan
        left = self._training / (self._share - self._start) * (1 - self._share)
        if step is None:
            return left
        total = max(round(step + self._steps * (1 - self._share) / (self._share - self._start)), 1)
        due = evaluations(self.every, total)
        done = math.floor(due * self._share + 1e-9)
        evaluation = self._evaluation
        if math.isnan(evaluation):  # none yet: a guess from the steps
            evaluation = FORWARD * self._training / max(self._rows, 1) * self.dev_rows
        test = evaluation * self.test_rows / self.dev_rows if self.dev_rows else 0.0
        return left + (due - done + 1) * evaluation + test


def evaluations(every: int | float, steps: int) -> int:
    """How many times a run of this many steps is evaluated. every: steps, or a share of the run."""
    if every == 0:
        return 1
    return min(math.ceil(steps / every if isinstance(every, int) else 1 / every - 1e-9), steps)
