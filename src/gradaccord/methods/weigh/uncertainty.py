"""Uncertainty weighting: each task's loss is weighted by its learned noise."""

from __future__ import annotations

import math
from typing import Any

from gradaccord.core.checks import finite
from gradaccord.core.parameters import Model
from gradaccord.methods.weigh.loss_weighting import LossWeighting


class UncertaintyWeighting(LossWeighting):
    """Homoscedastic uncertainty (Kendall et al. 2018, "Multi-Task Learning Using Uncertainty to Weigh
    Losses").

        min over theta and s of  sum_t 1/2 exp(-s_t) L_t + 1/2 s_t,    s_t = log sigma_t^2,  first 0
        w_t = 1/2 exp(-s_t),    s_t <- s_t - lr (1 - exp(-s_t) L_t) / 2

    With each step of the optimiser on theta, the s_t take a plain gradient step, both from the same
    point. At rest exp(s_t) = L_t: every loss is divided by twice its size. The losses must not be
    negative. Cost: see `LossWeighting`. Differs from `LossScale` by learning the scale slowly.

    lr: learning rate of the s_t.
    """

    def __init__(self, model: Model, *, lr: float = 0.025, **options: Any) -> None:
        super().__init__(model, **options)
        self.lr = finite("lr", lr)
        self.log_variances: dict[str, float] = {}

    def weigh(self, losses: dict[str, float]) -> dict[str, float]:
        weights = {}
        for task, loss in losses.items():
            if loss < 0:
                raise ValueError(
                    f"Task {task!r} has the loss {loss:g}, which is negative: uncertainty weighting "
                    "would raise its weight for ever; shift the loss to be positive."
                )
            s = self.log_variances.get(task, 0.0)
            weights[task] = 0.5 * math.exp(-s)
            self.log_variances[task] = s - self.lr * (0.5 - weights[task] * loss)
        return weights

    def _state(self) -> dict[str, Any]:
        return super()._state() | {"log_variances": dict(self.log_variances)}

    def _load(self, state: dict[str, Any]) -> None:
        super()._load(state)
        self.log_variances = dict(state["log_variances"])
