"""What depends on the share of a run that is done: the learning rate, and whether something is due."""

from __future__ import annotations

import math

import torch


class Schedule:
    """Sets every group's learning rate: it rises from 0 in the warm-up, then falls (or not) to the end.

    It depends on the share of the budget that is spent, so that methods whose steps differ in cost
    have the same rate at the same cost. floor: the lowest factor of a cosine.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, kind: str, warmup: float, floor: float = 0.0
    ) -> None:
        self.optimizer = optimizer
        self.kind = kind
        self.warmup, self.floor = warmup, floor
        self.rates = [group["lr"] for group in optimizer.param_groups]

    def factor(self, share: float) -> float:
        """What the rates are multiplied by when this share of the run is over."""
        if share < self.warmup:
            return share / self.warmup
        rest = (share - self.warmup) / max(1 - self.warmup, 1e-12)
        if self.kind == "linear":
            return max(1 - rest, 0.0)
        if self.kind == "cosine":
            return max(self.floor, 0.5 * (1 + math.cos(math.pi * min(rest, 1.0))))
        return 1.0

    def set(self, share: float, step_share: float) -> None:
        """Set the rates of a step that begins at `share`; in a warm-up the first is above 0, too."""
        factor = self.factor(min(share + step_share / 2, 1.0))
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor


def is_due(every: int | float, step: int, before: float, share: float) -> bool:
    """Whether a step passed a point at which something is due. every: steps, or a share; 0: never.

    before, share: how much of the run was over before the step, and is now.
    """
    if isinstance(every, int) or not every:
        return bool(every) and step % every == 0
    return math.floor(share / every + 1e-9) > math.floor(before / every + 1e-9)
