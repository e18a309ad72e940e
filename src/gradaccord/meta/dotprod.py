"""DotProd for few-shot tasks: align the gradients of a task's mini-batches, in two readings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gradaccord.meta.learner import Outcome, one_of
from gradaccord.meta.minibatches import pairs
from gradaccord.meta.network import Params
from gradaccord.meta.reptile import Moments, Reptile
from gradaccord.meta.task_batch import Task


@dataclass
class Pairs:
    """How many pairs were taken, and how many terms the cap has shortened."""

    taken: int = 0
    capped: int = 0


class DotProd(Reptile):
    """Meta DotProd (Kedia et al. 2021) on few-shot tasks; the paper leaves open how. Two readings.

        G1, G2: gradients of two disjoint mini-batches of a task's support set, at the same weights
        G = G1 + G2 + weight * D,   D = -H2 G1 (exact),   |weight * D| <= max_ratio * |G1 + G2|

    reading="inner": Reptile's inner loop and outer move, with mini-batches taken in pairs, one inner
    step along G each (an odd last one alone). reading="outer": no inner loop in training; the
    meta-gradient is the mean over tasks of G at phi. Evaluation adapts as `Reptile` does in both. Cost
    per pair, in batch gradients: about 4.2 (counted as 3), and the second mini-batch's graph.

    inner_batch: examples of a mini-batch; None: half of the support set.
    weight, max_ratio: as in `gradaccord.DotProd`; max_ratio=inf is the paper's, without a cap.
    Others as in `Reptile`.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        reading: str = "inner",
        weight: float = 0.1,
        max_ratio: float = 0.1,
        **options: Any,
    ) -> None:
        one_of("reading", reading, ("inner", "outer"))
        if not math.isfinite(weight):
            raise ValueError(f"`weight` is {weight}: it must be a finite number.")
        if not max_ratio > 0:
            raise ValueError(f"`max_ratio` is {max_ratio}: it must be positive; inf means no cap.")
        if reading == "outer":
            options = {"optimizer_state": "reset"} | options
        super().__init__(model, **options)
        self.reading = reading
        self.weight = float(weight)
        self.max_ratio = float(max_ratio)

    def task_gradient(self, tasks: Sequence[Task], place: int = 0) -> Outcome:
        """See `MetaLearner`."""
        counts = Pairs()
        if self.reading == "inner":
            outcome = self._towards(tasks[0], place, counts)
        else:
            outcome = self._at_start(tasks[0], place, counts)
        outcome.pairs, outcome.capped = counts.taken, counts.capped
        return outcome

    def _twice(self) -> bool:
        return True

    def _at_start(self, task: Task, place: int, counts: Pairs) -> Outcome:
        fast = self._copies()
        params = self._with(fast)
        (pair,) = pairs(len(task.support), self.inner_batch, 1, self._generator(place))
        gradient = dict(zip(self.adapted, self._paired(params, fast, task, pair, counts), strict=True))
        found = [gradient.get(name) for name in self._places]
        return Outcome(found, *self._measure(params, task), tasks=1, spent=3)

    def _train_(
        self,
        fast: list[torch.Tensor],
        params: Params,
        task: Task,
        moments: Moments,
        generator: torch.Generator,
        counts: Any = None,
    ) -> int:
        steps = (self.inner_steps + 1) // 2
        spent = 0
        for number, pair in enumerate(pairs(len(task.support), self.inner_batch, steps, generator)):
            if 2 * number + 1 < self.inner_steps:
                gradient = self._paired(params, fast, task, pair, counts)
                spent += 3
            else:
                inputs, labels = task.support[pair[0]], task.support_labels[pair[0]]
                gradient = self._gradient(params, fast, inputs, labels)
                spent += 1
            with torch.no_grad():
                moments.step_(fast, gradient)
        return spent

    def _paired(
        self,
        params: Params,
        weights: list[torch.Tensor],
        task: Task,
        pair: tuple[torch.Tensor, torch.Tensor],
        counts: Pairs,
    ) -> list[torch.Tensor]:
        """G1 + G2 + weight * D at these weights."""
        (one, one_labels), (two, two_labels) = (
            (task.support[places], task.support_labels[places]) for places in pair
        )
        first = self._gradient(params, weights, one, one_labels)
        with torch.enable_grad():
            second = self._gradient(params, weights, two, two_labels, create_graph=True)
            slope = torch.stack([(g * v).sum() for g, v in zip(second, first, strict=True)]).sum()
            product = torch.autograd.grad(slope, weights, allow_unused=True, materialize_grads=True)
        total = [a + b.detach() for a, b in zip(first, second, strict=True)]
        factor, limit = self.weight, self.max_ratio * _length(total)
        length = abs(factor) * _length(product)
        counts.taken += 1
        if length > limit:
            counts.capped += 1
            factor *= limit / length
        return [t.sub_(p, alpha=factor) for t, p in zip(total, product, strict=True)]


def _length(vector: Sequence[torch.Tensor]) -> float:
    return float(torch.stack(torch._foreach_norm(list(vector))).norm())
