"""MAML: weights from which a few gradient steps on a task lead to low query loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import torch
from torch import nn

from gradaccord.meta.episodes.task_batch import Task, TaskBatch, count_of, stacked
from gradaccord.meta.learners.checks import rate_of
from gradaccord.meta.learners.inner_loops import (
    Weights,
    copied,
    descend_,
    descended,
    in_place,
    last,
    unrolled,
)
from gradaccord.meta.learners.learner import MetaLearner
from gradaccord.meta.learners.outcome import Outcome
from gradaccord.meta.learners.sharing import GradientSharing
from gradaccord.meta.network.functional import dense
from gradaccord.meta.network.general import Params


class MAML(MetaLearner):
    """Model-agnostic meta-learning (Finn et al. 2017).

        theta_0 = phi;   theta_k = theta_{k-1} - alpha grad L_support(theta_{k-1}),   k = 1..K
        g = mean over tasks of  d L_query(theta_K) / d phi

    Exact second order: the gradient runs through the K steps. Cost: T (K + 1) batch gradients and about
    twice that for the second derivatives; memory: the K graphs of one task, or of a few small ones that
    run in one pass (of all T with sharing).

    inner_lr: alpha, for a loss that is a mean over examples. Finn's 0.4 for Omniglot 5-way is for a sum
        over the ways: 2.0 here.
    first_order: leave out second derivatives, as `FOMAML`.
    share: gradient sharing between the tasks of a batch, see `GradientSharing`.
    recompute: gradient checkpointing of the inner steps: keeps the graph of one step instead of K, for
        one more batch gradient a step. The meta-gradient is the same.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        inner_lr: float = 0.1,
        inner_steps: int = 5,
        first_order: bool = False,
        share: bool = False,
        recompute: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(model, inner_steps=inner_steps, **options)
        self.inner_lr = rate_of("inner_lr", inner_lr)
        if recompute and first_order:
            raise ValueError("`recompute` is True, and first order keeps no graph: leave it out.")
        self.first_order, self.recompute = first_order, recompute
        self.differentiates_twice = share or not first_order
        self._check_precision()
        self.separable = self.in_parts = not share
        self.sharing: GradientSharing | None = None
        if share:
            weights = self.functional.start(self.adapted)
            self.sharing = GradientSharing(self.adapted, weights, self.inner_steps)

    def rates_at(self, step: int) -> float | list[torch.Tensor]:
        """alpha at an inner step (from 0): one number, or a tensor for each adapted weight."""
        return self.inner_lr

    def at_step(self, step: int) -> dict[str, torch.Tensor]:
        """All parameters as an inner step uses them, before adaptation."""
        return self.functional.parameters()

    def query_weights(self) -> list[float]:
        """The weight of the query loss after each of the K steps; the last is above 0."""
        return [0.0] * (self.inner_steps - 1) + [1.0]

    @property
    def second_order(self) -> bool:
        """Whether the meta-gradient runs through the inner gradients."""
        return not self.first_order

    def statistics(self, visited: list[tuple[int, Params]]) -> dict[str, list[Any]]:
        """State to keep from the parameters that a task had at each step."""
        return {}

    def meta_gradient(self, tasks: Sequence[Task], first: int) -> Outcome:
        """See `MetaLearner`."""
        if any(len(task.query) == 0 for task in tasks):
            raise ValueError(f"A task has no queries, and {type(self).__name__} needs some: give them.")
        if not self.differentiates_twice:
            return self._query_gradient(stacked(tasks))
        stacks = [stacked(tasks)] if self.sharing is None else tasks
        means: list[Weights] = []  # of gradient sharing, by step

        def update(weights: list[Weights], gradients: list[Weights], step: int) -> list[Weights]:
            if self.sharing is not None:
                gradients, mean = self.sharing.directions(gradients, step, self.group)
                means.append(mean)
            pairs = zip(weights, gradients, strict=True)
            return [descended(own, g, self.rates_at(step)) for own, g in pairs]

        loop = unrolled(
            self.functional, self.adapted, stacks, self.inner_steps, at_step=self.at_step,
            update=update, create_graph=self.second_order, recompute=self.recompute,
        )  # fmt: skip
        visited: list[tuple[int, Params]] = []
        terms: list[torch.Tensor] = []
        for step, (adapted, weight) in enumerate(zip(loop, self.query_weights(), strict=True)):
            visited += [(step, params) for params in adapted]
            if weight:
                scores = [self._query_scores(*pair) for pair in zip(adapted, stacks, strict=True)]
                terms += [weight * loss for loss, _ in scores]
        objective = sum(terms[1:], terms[0])
        return Outcome(
            dense(torch.autograd.grad(objective, self._trainable(), allow_unused=True)),
            loss=torch.stack([loss.detach() for loss, _ in scores]).sum(),
            accuracy=torch.stack([accuracy for _, accuracy in scores]).sum(),
            tasks=len(tasks),
            spent=(self.inner_steps + len(terms) // len(stacks)) * len(tasks),
            kept={"means": means} | self.statistics(visited),
        )

    def _query_gradient(self, task: Task | TaskBatch) -> Outcome:
        """First order: adapt in place; the query gradient there is the meta-gradient."""
        params = last(self.trajectory(task.support, task.support_labels, self.inner_steps))
        with torch.enable_grad():
            loss, accuracy = self._query_scores(params, task)
            leaves = [params[name] for name in self.learned]
            found = dense(torch.autograd.grad(loss, leaves, allow_unused=True))
        by_name = dict(zip(self.learned, found, strict=True))
        if isinstance(task, TaskBatch):  # every task has moved its own weights
            by_name |= {name: by_name[name].sum(0) for name in self.adapted}
        count = count_of(task)
        spent = count * (self.inner_steps + 1)
        return Outcome(self._in_order(by_name), loss.detach(), accuracy, tasks=count, spent=spent)

    def trajectory(self, support: torch.Tensor, labels: torch.Tensor, steps: int) -> Iterator[Params]:
        """See `MetaLearner`."""

        def update_(weights: Weights, direction: Weights, step: int) -> None:
            if self.sharing is not None:
                direction = self.sharing.frozen_direction(direction, step)
            descend_(weights, direction, self.rates_at(step))

        return in_place(
            self.adapted, copied(self.functional.start(self.adapted, support)),
            repeat((support, labels), steps),
            at_step=self.at_step, update_=update_,
            gradient=lambda params, batch: self.functional.gradient(params, self.adapted, *batch),
            graphless=self.functional.is_graphless,
        )  # fmt: skip

    def keep(self, kept: Mapping[str, list[Any]]) -> None:
        """See `MetaLearner`."""
        if self.sharing is not None:
            self.sharing.keep(kept["means"])

    def measured(self) -> dict[str, Any]:
        """See `MetaLearner`."""
        return {} if self.sharing is None else self.sharing.sigma()
