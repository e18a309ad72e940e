"""MAML and FOMAML: weights from which a few gradient steps on a task lead to low query loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from gradaccord.meta.learner import MetaLearner, Outcome, accuracy_of, dense, last, rate_of
from gradaccord.meta.network import Params
from gradaccord.meta.sharing import GradientSharing
from gradaccord.meta.task_batch import Task


class MAML(MetaLearner):
    """Model-agnostic meta-learning (Finn et al. 2017).

        theta_0 = phi;   theta_k = theta_{k-1} - alpha grad L_support(theta_{k-1}),   k = 1..K
        g = mean over tasks of  d L_query(theta_K) / d phi

    Exact second order: the gradient runs through the K steps. Cost: T (K + 1) batch gradients and about
    twice that for the second derivatives; memory: the K graphs of one task (of all T with sharing).

    inner_lr: alpha, on a loss that is a mean over examples. Finn's 0.4 for Omniglot 5-way is on a
        sum over the ways: 2.0 here.
    first_order: leave out second derivatives, as `FOMAML`.
    share: gradient sharing between the tasks of a batch, see `GradientSharing`.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        inner_lr: float = 0.1,
        inner_steps: int = 5,
        first_order: bool = False,
        share: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(model, inner_steps=inner_steps, **options)
        self.inner_lr = rate_of("inner_lr", inner_lr)
        self.first_order = first_order
        self.sharing: GradientSharing | None = None
        if share:
            params = self._params()
            weights = [params[name] for name in self.adapted]
            self.sharing = GradientSharing(self.adapted, weights, self.inner_steps)

    # What the variants change.

    def _step(
        self, weights: Sequence[torch.Tensor], directions: Sequence[torch.Tensor], step: int
    ) -> list[torch.Tensor]:
        """One inner step, differentiable."""
        return [torch.sub(w, d, alpha=self.inner_lr) for w, d in zip(weights, directions, strict=True)]

    def _step_(self, weights: list[torch.Tensor], directions: list[torch.Tensor], step: int) -> None:
        """One inner step, in place."""
        torch._foreach_add_(weights, directions, alpha=-self.inner_lr)

    def _at_step(self, params: dict[str, torch.Tensor], step: int) -> dict[str, torch.Tensor]:
        """All parameters as inner step `step` (from 0) uses them, before adaptation."""
        return params

    def _query_weights(self) -> list[float]:
        """The weight of the query loss after each of the K steps."""
        return [0.0] * (self.inner_steps - 1) + [1.0]

    def _second_order(self) -> bool:
        return not self.first_order

    def _in_place(self) -> bool:
        """Whether the meta-gradient is the query gradient at the adapted weights, and no more."""
        return self.first_order and self.sharing is None

    def _twice(self) -> bool:
        return not self._in_place()

    # The inner loops.

    def task_gradient(self, tasks: Sequence[Task], place: int = 0) -> Outcome:
        """See `MetaLearner`."""
        for task in tasks:
            if len(task.query) == 0:
                raise ValueError(
                    f"A task has no queries, and {type(self).__name__} learns from them: give some."
                )
        return self._one_in_place(tasks[0]) if self._in_place() else self._unrolled(tasks)

    def _unrolled(self, tasks: Sequence[Task]) -> Outcome:
        """Differentiate through the inner steps; tasks advance together."""
        second_order, weights = self._second_order(), self._query_weights()
        params = self._params()
        fast = [self._start() for _ in tasks]
        objective = torch.zeros((), dtype=fast[0][0].dtype, device=fast[0][0].device)
        loss, accuracy = objective, torch.zeros((), dtype=torch.float64, device="cpu")
        spent = 0
        for step in range(self.inner_steps):
            at_step = [self._at_step(params, step) for _ in tasks]
            gradients = [
                self._gradient(
                    base | dict(zip(self.adapted, own, strict=True)),
                    own,
                    task.support,
                    task.support_labels,
                    create_graph=second_order,
                )
                for base, own, task in zip(at_step, fast, tasks, strict=True)
            ]
            spent += len(tasks)
            directions = self._directions(gradients, step)
            fast = [self._step(own, d, step) for own, d in zip(fast, directions, strict=True)]
            if weights[step] == 0:
                continue
            for base, own, task in zip(at_step, fast, tasks, strict=True):
                outputs = self._outputs(base | dict(zip(self.adapted, own, strict=True)), task.query)
                query_loss = self._loss(outputs, task.query_labels)
                objective = objective + weights[step] * query_loss
                spent += 1
                if step == self.inner_steps - 1:
                    loss = loss + query_loss.detach()
                    accuracy = accuracy + accuracy_of(outputs, task.query_labels)
        found = torch.autograd.grad(objective, self._trainable(), allow_unused=True)
        return Outcome(dense(found), loss, accuracy, len(tasks), spent)

    def _directions(self, gradients: list[list[torch.Tensor]], step: int) -> list[list[torch.Tensor]]:
        """What each task descends along, from all tasks' gradients."""
        if self.sharing is None:
            return gradients
        return self.sharing.directions(gradients, step, self.group)

    def _one_in_place(self, task: Task) -> Outcome:
        """First order: step in place, no graph across steps."""
        params = last(self._trajectory(task.support, task.support_labels, self.inner_steps))
        leaves = [params[name] for name in self._places]
        with torch.enable_grad():
            outputs = self._outputs(params, task.query)
            loss = self._loss(outputs, task.query_labels)
            found = torch.autograd.grad(loss, leaves, allow_unused=True)
        accuracy = accuracy_of(outputs, task.query_labels)
        return Outcome(dense(found), loss.detach(), accuracy, 1, self.inner_steps + 1)

    def _trajectory(self, support: torch.Tensor, labels: torch.Tensor, steps: int) -> Iterator[Params]:
        start = self._params()
        fast = self._copies()
        adapted = dict(zip(self.adapted, fast, strict=True))
        yield self._at_step(start, 0) | adapted
        for step in range(steps):
            params = self._at_step(start, step) | adapted
            gradient = self._gradient(params, fast, support, labels)
            with torch.no_grad():
                self._step_(fast, self._frozen_direction(gradient, step), step)
            yield params

    def _frozen_direction(self, gradient: list[torch.Tensor], step: int) -> list[torch.Tensor]:
        """What a task descends along at test, from its own gradient."""
        return gradient if self.sharing is None else self.sharing.frozen_direction(gradient, step)

    def _outcomes(self, tasks: list[Task], place: int) -> Iterator[Outcome]:
        if self.sharing is None:
            return super()._outcomes(tasks, place)
        return iter([self.task_gradient(tasks, place)])

    def _begin(self) -> None:
        if self.sharing is not None:
            self.sharing.begin()

    def _commit(self, finite: bool) -> None:
        if self.sharing is not None:
            if finite:
                self.sharing.commit()
            self.sharing.begin()

    def _measured(self) -> dict[str, Any]:
        return {} if self.sharing is None else self.sharing.sigma()


class FOMAML(MAML):
    """First-order MAML (Finn et al. 2017): the query gradient at the adapted weights, applied at phi.

        g = mean over tasks of  grad L_query(theta_K)

    Steps in place and keeps no graph: T (K + 1) batch gradients, one copy of the weights. Differs from
    `gradaccord.FOMAML`, which follows one task through an optimiser's steps.
    """

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__(model, first_order=True, **options)
