"""Smooth Tchebycheff scalarisation: most weight to the task that is worst off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradaccord.core.parameters import Model
from gradaccord.methods.weigh.loss_weighting import LossWeighting, softmax


class SmoothTchebycheff(LossWeighting):
    """Smooth Tchebycheff scalarisation (Lin et al. 2024, "Smooth Tchebycheff Scalarization for
    Multi-Objective Optimization").

        min over theta of  T mu log sum_t exp(p_t (L_t - ideal_t) / mu)
        w_t = T p_t softmax_t(p (L - ideal) / mu)

    A smooth form of the largest p_t (L_t - ideal_t): small `mu` trains the worst task alone, large
    `mu` all alike, as plain training does. Losses of different scales need preferences. Losses may have
    any sign, and there is no state. The factor T (the paper has none) keeps the learning rate of the
    summed loss. Cost: see `LossWeighting`.

    mu: the smoothing; the paper tries 0.01 to 1.
    preferences: p_t by task; 1 where not given.
    ideal: the least loss that each task can reach; 0 where not given.
    """

    def __init__(
        self,
        model: Model,
        *,
        mu: float = 0.5,
        preferences: Mapping[str, float] | None = None,
        ideal: Mapping[str, float] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model, **options)
        if not 0 < mu < float("inf"):
            raise ValueError(f"`mu` is {mu}: it must be a finite number > 0.")
        self.mu = float(mu)
        self.preferences = {task: float(value) for task, value in (preferences or {}).items()}
        for task, value in self.preferences.items():
            if not 0 < value < float("inf"):
                raise ValueError(
                    f"`preferences` gives task {task!r} {value}: it must be a finite number > 0."
                )
        self.ideal = {task: float(value) for task, value in (ideal or {}).items()}

    def weigh(self, losses: dict[str, float]) -> dict[str, float]:
        preferred = {task: self.preferences.get(task, 1.0) for task in losses}
        distances = {
            task: preferred[task] * (loss - self.ideal.get(task, 0.0)) / self.mu
            for task, loss in losses.items()
        }
        shares = softmax(distances)
        return {task: len(losses) * preferred[task] * share for task, share in shares.items()}
