"""Where a run stands: running means for a screen, and numbers of a step's report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from gradaccord.core.report import StepReport
from gradaccord.core.watch import Watch
from gradaccord.train.step_batches import StepBatch

SMOOTHING = 0.1  # weight of a new loss in its running mean
NOW = "; now "  # in a line of output, before what is done beside steps


@dataclass
class Progress:
    """Where a run stands, for a screen."""

    phase: str = "main"
    step: int = 0
    share: float = 0.0  # of this phase
    seconds_left: float = math.nan
    losses: dict[str, float] = field(default_factory=dict)  # running means
    conflicts: float = math.nan
    cosine: float = math.nan
    scores: dict[str, float] = field(default_factory=dict)  # of the last evaluation
    best: float = math.nan
    doing: str = ""  # what is done beside steps: reading, evaluating, probing, saving
    done: float = 0.0
    total: float = 0.0  # 0: nobody knows

    @property
    def now(self) -> str:
        """What is done besides steps, and how much of it; empty while steps are taken."""
        return (
            f"{self.doing}, {self.done / self.total:.0%}" if self.doing and self.total else self.doing
        )

    def note(self, report: StepReport, drawn: Sequence[StepBatch]) -> None:
        """Add a step to the running means."""
        losses = losses_of(report)
        for one in drawn:
            # Halves of a pair that came one a call are called #1 and #2 if they are of one task.
            now = losses[one.name] if one.name in losses else losses[report.tasks[-1]]
            before = self.losses.get(one.task, now)
            self.losses[one.task] = before + SMOOTHING * (now - before)
        if len(report.tasks) > 1:
            self.cosine = report.mean_cosine
            if report.pairs:
                before, share = self.conflicts, report.conflicts
                self.conflicts = share if math.isnan(before) else before + 0.05 * (share - before)


def watch_of(show: Callable[[Progress], None], say: Callable[[str], None]) -> Watch:
    """Shows what is done before the first step as a run that has not begun."""
    return Watch(
        lambda what, done, total: show(Progress("setting up", doing=what, done=done, total=total)), say
    )


def mean_dot(report: StepReport) -> float:
    """The mean dot product of two tasks' gradients."""
    first, second = torch.triu_indices(len(report.tasks), len(report.tasks), 1, device="cpu")
    return float(report.gram[first, second].mean())


def losses_of(report: StepReport) -> dict[str, float]:
    """The losses of a step by task."""
    return dict(zip(report.tasks, report.losses.tolist(), strict=True))
