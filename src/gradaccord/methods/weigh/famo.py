"""FAMO: weights that let all losses fall at the same rate, learned from the losses alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gradaccord.core.checks import finite
from gradaccord.core.parameters import Model
from gradaccord.methods.weigh.loss_weighting import LossWeighting, above, softmax

BETAS = (0.9, 0.999)  # of Adam
EPSILON = 1e-8


class FAMO(LossWeighting):
    """Fast adaptive multitask optimisation (Liu B. et al. 2023, "FAMO").

        z = softmax(xi),   D_t = L_t - min_t,   w_t = T (z_t / D_t) / sum_s (z_s / D_s)
        d_t = log D_t(before the step) - log D_t(after it)
        xi <- Adam(xi, J' d + weight_decay xi),   J = d softmax / d xi,   first 0

    A task gets less weight if its loss fell faster than the others'. The published code runs every
    batch forward a second time, after the step, for the losses "after it". Here the losses of the
    task's next batch are used instead, which costs nothing and is noisier. The xi of tasks that were
    absent from the step before do not change. Losses must be above `min_losses`. Cost: see
    `LossWeighting`.

    lr, weight_decay: of the logits xi.
    min_losses: the least loss that each task can have; 0 where not given.
    """

    def __init__(
        self,
        model: Model,
        *,
        lr: float = 0.025,
        weight_decay: float = 1e-3,
        min_losses: Mapping[str, float] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model, **options)
        self.lr = finite("lr", lr)
        self.weight_decay = finite("weight_decay", weight_decay)
        self.min_losses = {task: float(loss) for task, loss in (min_losses or {}).items()}
        self.before: dict[str, float] = {}  # log D of the last step's tasks
        self.logits: dict[str, float] = {}
        self.moments: dict[str, tuple[float, float, int]] = {}  # Adam's first, second, and its steps

    def weigh(self, losses: dict[str, float]) -> dict[str, float]:
        above(self.min_losses, losses, "FAMO takes the logarithm of what is above the least loss")
        logs = {task: math.log(loss - self.min_losses.get(task, 0.0)) for task, loss in losses.items()}
        for task in losses:
            self.logits.setdefault(task, 0.0)
        self._learn({task: self.before[task] - logs[task] for task in losses if task in self.before})
        self.before = logs
        # (z / D) / sum(z / D) is a softmax itself, of xi - log D.
        shares = softmax({task: self.logits[task] - logs[task] for task in losses})
        return {task: len(losses) * share for task, share in shares.items()}

    def _learn(self, falls: dict[str, float]) -> None:
        """One step of Adam on the logits of the tasks that were in both steps."""
        if not falls:
            return
        z = softmax({task: self.logits[task] for task in falls})
        mean = sum(z[task] * fall for task, fall in falls.items())
        for task, fall in falls.items():
            slope = z[task] * (fall - mean) + self.weight_decay * self.logits[task]
            first, second, n = self.moments.get(task, (0.0, 0.0, 0))
            first = BETAS[0] * first + (1 - BETAS[0]) * slope
            second = BETAS[1] * second + (1 - BETAS[1]) * slope**2
            n += 1
            self.moments[task] = (first, second, n)
            length = math.sqrt(second / (1 - BETAS[1] ** n)) + EPSILON
            self.logits[task] -= self.lr * first / (1 - BETAS[0] ** n) / length

    def _state(self) -> dict[str, Any]:
        return super()._state() | {
            "before": dict(self.before),
            "logits": dict(self.logits),
            "moments": dict(self.moments),
        }

    def _load(self, state: dict[str, Any]) -> None:
        super()._load(state)
        self.before = dict(state["before"])
        self.logits = dict(state["logits"])
        self.moments = {task: (a, b, n) for task, (a, b, n) in state["moments"].items()}
