"""DotProd for few-shot tasks: align the gradients of a task's mini-batches, in two readings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from gradaccord.core.checks import one_of
from gradaccord.meta.episodes.minibatches import pairs
from gradaccord.meta.episodes.task_batch import Task
from gradaccord.meta.learners.inner_loops import Weights, copied, last
from gradaccord.meta.learners.inner_optimizer import Moments
from gradaccord.meta.learners.outcome import Outcome
from gradaccord.meta.learners.reptile import Labelled, Reptile
from gradaccord.meta.network.general import Params


class DotProd(Reptile):
    """Meta DotProd (Kedia et al. 2021) on few-shot tasks; `reading` is one of two readings of it.

        G1, G2: gradients of two disjoint mini-batches of a task's support set, at the same weights
        G = G1 + G2 + weight * D,   D = -H2 G1 (exact),   |weight * D| <= max_ratio * |G1 + G2|

    In both, evaluation adapts as `Reptile` does. Cost per pair, in batch gradients: about 4.2 (counted
    as 3), and the second mini-batch's graph.

    reading: "inner": Reptile's inner loop and outer move, with mini-batches taken in pairs, one inner
        step along G each (an odd last one alone). "outer": no inner loop in training; the
        meta-gradient is the mean over tasks of G at phi.
    inner_batch: examples of a mini-batch; None: half of the support set.
    weight, max_ratio: as in `gradaccord.DotProd`; max_ratio=inf is the paper's, without a cap.
    Others as in `Reptile`.
    """

    differentiates_twice = True

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
        self.reading, self.weight, self.max_ratio = reading, float(weight), float(max_ratio)

    def displacements(
        self, tasks: Sequence[Task], first: int, moments: Sequence[Moments]
    ) -> Iterator[Outcome]:
        """See `Reptile`; for the outer reading, G at phi itself."""
        for number, (task, own) in enumerate(zip(tasks, moments, strict=True), first):
            yield self._displacement(task, number, own)

    def _gradient(
        self, data: Labelled, params: Params, places: torch.Tensor, create_graph: bool = False
    ) -> Weights:
        """On the mini-batch that stands at these places of the support set."""
        inputs, labels = data[0][places], data[1][places]
        return self.functional.gradient(params, self.adapted, inputs, labels, create_graph)

    def _displacement(self, task: Task, number: int, moments: Moments) -> Outcome:
        gradient = partial(self._gradient, (task.support, task.support_labels))
        capped: list[bool] = []  # of each pair

        def direction(params: Params, batches: Sequence[torch.Tensor]) -> Weights:
            if len(batches) == 1:
                return gradient(params, batches[0])
            aligned, shortened = self._aligned(gradient, params, *batches)
            capped.append(shortened)
            return aligned

        outer, odd = self.reading == "outer", self.inner_steps % 2
        steps = 1 if outer else self.inner_steps // 2 + odd
        drawn: list[Sequence[torch.Tensor]]
        drawn = [*pairs(len(task.support), self.inner_batch, steps, self._generator(number))]
        if odd and not outer:
            drawn[-1] = drawn[-1][:1]
        start = copied(self.functional.start(self.adapted))
        weights = copied(start)
        theta = last(self._train(weights, [] if outer else drawn, direction, moments, graphless=False))
        at_phi = direction(theta, drawn[0]) if outer else []
        outcome = self._way_back(
            task, start, theta, spent=sum(2 * len(batches) - 1 for batches in drawn)
        )
        if outer:
            outcome.gradients = self._in_order(dict(zip(self.adapted, at_phi, strict=True)))
        outcome.pairs, outcome.capped = len(capped), sum(capped)
        return outcome

    def _aligned(
        self,
        gradient: Callable[..., Weights],
        params: Params,
        one: torch.Tensor,
        two: torch.Tensor,
    ) -> tuple[Weights, bool]:
        """G1 + G2 + weight * D at these parameters, and whether the cap has shortened the last term."""
        first = gradient(params, one)
        with torch.enable_grad():
            second = gradient(params, two, create_graph=True)
            slope = torch.stack([(g * v).sum() for g, v in zip(second, first, strict=True)]).sum()
            weights = [params[name] for name in self.adapted]
            product = torch.autograd.grad(slope, weights, allow_unused=True, materialize_grads=True)
        total = [a + b.detach() for a, b in zip(first, second, strict=True)]
        factor, limit = self.weight, self.max_ratio * _length(total)
        length = abs(factor) * _length(product)
        capped = length > limit
        if capped:
            factor *= limit / length
        return [t.sub_(p, alpha=factor) for t, p in zip(total, product, strict=True)], capped


def _length(vector: Sequence[torch.Tensor]) -> float:
    return float(torch.stack(torch._foreach_norm(list(vector))).norm())
