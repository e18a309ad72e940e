"""Loss-scale normalisation: each loss divided by its running mean."""

from __future__ import annotations

from typing import Any

from gradaccord.core.parameters import Model
from gradaccord.methods.weigh.loss_weighting import LossWeighting, above


class LossScale(LossWeighting):
    """Each loss divided by its running mean, which brings all losses to one scale.

        m_t <- decay m_t + (1 - decay) L_t,   w_t = (1 - decay^n_t) / m_t

    n_t counts the steps that had task t: the mean is over those alone, and the first weight is 1 / L_t.
    The plain baseline of weighting: learned weights should beat it. The losses must be positive. Cost:
    see `LossWeighting`.

    decay: 0.99 remembers about a hundred steps; 0 divides each loss by its own value: the gradient of
        the sum of log losses.
    """

    def __init__(self, model: Model, *, decay: float = 0.99, **options: Any) -> None:
        super().__init__(model, **options)
        if not 0 <= decay < 1:
            raise ValueError(f"`decay` is {decay}: it must be in [0, 1).")
        self.decay = float(decay)
        self.sums: dict[str, tuple[float, float]] = {}  # of decayed losses, and of their shares

    def weigh(self, losses: dict[str, float]) -> dict[str, float]:
        above({}, losses, "a loss is divided by its running mean")
        weights = {}
        for task, loss in losses.items():
            total, shares = self.sums.get(task, (0.0, 0.0))
            total = self.decay * total + (1 - self.decay) * loss
            shares = self.decay * shares + (1 - self.decay)
            self.sums[task] = (total, shares)
            weights[task] = shares / total
        return weights

    def _state(self) -> dict[str, Any]:
        return super()._state() | {"sums": dict(self.sums)}

    def _load(self, state: dict[str, Any]) -> None:
        super()._load(state)
        self.sums = {task: (total, shares) for task, (total, shares) in state["sums"].items()}
