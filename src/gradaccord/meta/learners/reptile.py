"""Reptile for few-shot tasks: move towards where each task's own training leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import nn

from gradaccord.core.checks import one_of, whole_number
from gradaccord.meta.episodes.minibatches import minibatches
from gradaccord.meta.episodes.task_batch import Task
from gradaccord.meta.learners.checks import rate_of
from gradaccord.meta.learners.inner_loops import Batch, Weights, copied, in_place, last
from gradaccord.meta.learners.inner_optimizer import Moments, zeros
from gradaccord.meta.learners.learner import MetaLearner
from gradaccord.meta.learners.named_tensors import NamedTensors
from gradaccord.meta.learners.outcome import Outcome
from gradaccord.meta.network.general import Params
from gradaccord.meta.reduce import sum_over_processes

EVALUATION_SEED = 0
Labelled: TypeAlias = tuple[torch.Tensor, torch.Tensor]  # inputs and labels
Gradient: TypeAlias = Callable[[Params, Batch], Weights]


class Reptile(MetaLearner):
    """Reptile (Nichol et al. 2018) on few-shot tasks.

        theta_t = phi;  K times, each on a mini-batch of the support set: theta_t <- InnerOpt(theta_t)
        g = mean over tasks of (phi - theta_t)

    With `torch.optim.SGD(learner.parameters(), lr=eta)` outside, this is phi + eta mean(theta_t - phi);
    the paper anneals eta from 1 to 0. Trains on the support set alone, which should hold more
    shots than the tasks to be solved (10 or 15); queries are only measured. Cost: T K batch gradients,
    two copies of the weights, no graph. Differs from
    `gradaccord.Reptile`, which follows one task through an optimiser's steps.

    inner_lr: of the inner optimiser, for a loss that is a mean over examples.
    inner_optimizer: "adam" (beta1 = 0, as in the original code) or "sgd".
    beta2: of Adam.
    inner_batch: examples of a mini-batch in training; None: the whole support set.
    evaluation_batch: the same in evaluation, on the smaller support sets there.
    optimizer_state: "keep" carries Adam's second moments from task to task, as the original code
        does (evaluation starts from a copy); "reset" starts each task with fresh ones. "average": every
        task of a batch starts from a copy of the kept moments, and the mean of what the tasks leave is
        kept. Tasks then do not wait for each other: several `threads` and processes may run them, and
        the result does not depend on how many. The moments advance by K steps a batch instead of T K.
    seed: of the order in which mini-batches are drawn.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        inner_lr: float = 1e-3,
        inner_steps: int = 5,
        inner_optimizer: str = "adam",
        beta2: float = 0.999,
        inner_batch: int | None = 10,
        evaluation_batch: int | None = None,
        optimizer_state: str = "keep",
        seed: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(model, inner_steps=inner_steps, **options)
        one_of("inner_optimizer", inner_optimizer, ("adam", "sgd"))
        one_of("optimizer_state", optimizer_state, ("keep", "reset", "average"))
        if not 0 < beta2 < 1:
            raise ValueError(f"`beta2` is {beta2}: use a number between 0 and 1, such as 0.999.")
        for field, size in (("inner_batch", inner_batch), ("evaluation_batch", evaluation_batch)):
            if size is not None:
                whole_number(field, size)
        adam = inner_optimizer == "adam"
        self.keeps, self.averages = (adam and optimizer_state == s for s in ("keep", "average"))
        if self.keeps and self.group is not None:
            raise ValueError(
                "`optimizer_state` is 'keep', which carries moments from one task to the next, and "
                f"{self.group.size()} processes run tasks at the same time: use 'average' or 'reset'."
            )
        self.separable = not self.keeps
        self.in_parts = not self.averages
        self.inner_lr = rate_of("inner_lr", inner_lr)
        self.inner_optimizer, self.beta2 = inner_optimizer, float(beta2)
        self.inner_batch, self.evaluation_batch, self.seed = inner_batch, evaluation_batch, seed
        self.inner_count: torch.Tensor  # Adam's steps so far, if they are kept
        self.register_buffer("inner_count", torch.zeros((), dtype=torch.int64, device="cpu"))
        if self.keeps or self.averages:
            self.squares = NamedTensors()
            for name, square in zip(self.adapted, zeros(self.functional, self.adapted), strict=True):
                self.squares.add(name, square)

    def meta_gradient(self, tasks: Sequence[Task], first: int) -> Outcome:
        """See `MetaLearner`."""
        moments = self._moments()  # carried through all tasks if they are kept
        each = [moments if self.keeps else self._moments() for _ in tasks]
        total = Outcome.total(self.displacements(tasks, first, each))
        total.kept = {"moments": each if self.averages else [moments]}
        return total

    def displacements(
        self, tasks: Sequence[Task], first: int, moments: Sequence[Moments]
    ) -> Iterator[Outcome]:
        """Train on each task from phi; the way back, phi - theta, is the gradient."""
        start = copied(self.functional.start(self.adapted))
        theta = copied(start)
        self.functional.prepare([task.query for task in tasks])
        for number, (task, own) in enumerate(zip(tasks, moments, strict=True), first):
            generator = self._generator(number)
            drawn = minibatches(len(task.support), self.inner_batch, self.inner_steps, generator)
            batches = self.functional.batches(task.support, task.support_labels, drawn)
            with torch.no_grad():
                torch._foreach_copy_(theta, start)
            adapted = last(self._train(theta, batches, self._on_batch, own))
            yield self._way_back(task, start, adapted, self.inner_steps)

    def trajectory(self, support: torch.Tensor, labels: torch.Tensor, steps: int) -> Iterator[Params]:
        """See `MetaLearner`."""
        generator = torch.Generator("cpu").manual_seed(EVALUATION_SEED)
        drawn = minibatches(len(support), self.evaluation_batch, steps, generator)
        batches = self.functional.batches(support, labels, drawn)
        weights = copied(self.functional.start(self.adapted))
        return self._train(weights, batches, self._on_batch, self._moments())

    def keep(self, kept: Mapping[str, list[Any]]) -> None:
        """See `MetaLearner`."""
        if not (self.keeps or self.averages):
            return
        moments = kept["moments"]
        tasks = torch.tensor(float(len(moments)), dtype=torch.float64, device="cpu")
        sums = moments[0].squares
        for other in moments[1:]:
            sums = torch._foreach_add(sums, other.squares)
        if self.group is not None:
            sum_over_processes([tasks, *sums], self.group)
        for buffer, total in zip(self.squares.buffers(), sums, strict=True):
            buffer.copy_(total / float(tasks))  # in its own layout: a resumed run saves the same bytes
        self.inner_count.fill_(moments[0].count)

    def _on_batch(self, params: Params, batch: Labelled) -> Weights:
        return self.functional.gradient(params, self.adapted, *batch)

    def _train(
        self,
        weights: Weights,
        batches: Iterable[Batch],
        gradient: Gradient[Batch],
        moments: Moments,
        graphless: bool = True,
    ) -> Iterator[Params]:
        """A step of the inner optimiser for each mini-batch, in place."""
        params = self.functional.parameters()
        return in_place(
            self.adapted, weights, batches, at_step=lambda _: params, gradient=gradient,
            update_=lambda weights, direction, _: moments.step_(weights, direction),
            graphless=graphless and self.functional.is_graphless,
        )  # fmt: skip

    @torch.no_grad()
    def _way_back(self, task: Task, start: Weights, theta: Params, spent: int) -> Outcome:
        way = torch._foreach_sub(start, [theta[name] for name in self.adapted])
        scores = self._query_scores(theta, task)
        gradients = self._in_order(dict(zip(self.adapted, way, strict=True)))
        return Outcome(gradients, *scores, tasks=1, spent=spent)

    def _generator(self, number: int) -> torch.Generator:
        """The generator of this task's mini-batches: the same wherever the task is run."""
        seed = (self.seed * 2**32 + int(self.iteration)) * 2**16 + number
        return torch.Generator("cpu").manual_seed(seed % 2**63)

    def _moments(self) -> Moments:
        """Those to start from: a copy of the kept ones, or fresh ones."""
        keeps = self.keeps or self.averages
        kept = [own.clone() for own in self.squares.buffers()] if keeps else None
        squares = kept or zeros(self.functional, self.adapted)
        return Moments(self.inner_optimizer, self.inner_lr, self.beta2, squares, int(self.inner_count))
