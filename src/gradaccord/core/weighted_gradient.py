"""The gradient of a weighted sum of the tasks' losses, where the weights depend on the losses alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from gradaccord.core.bank import Bank, deliver, put
from gradaccord.core.losses import Losses, SharedBatch, SharedFn, extras_of, read_shared
from gradaccord.core.reduce import join_losses, sum_over
from gradaccord.core.task_gradients import TaskGradients
from gradaccord.core.temporary_weights import weights_moved

# From the names and mean losses of a step's tasks, [T], to their weights, [T].
Weigh: TypeAlias = Callable[[list[str], torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Weighted:
    """What a gradient was made of. Losses and weights, [T], are those of `tasks`."""

    order: list[str]  # the tasks as the user gave them
    tasks: list[str]  # the tasks by name
    losses: torch.Tensor
    weights: torch.Tensor


class WeightedGradient(TaskGradients):
    """Runs the losses, asks for their weights, and fills `.grad`; the same on every process.

    One batch under several heads runs forward once and backward once, whatever the number of tasks.
    Own batches and micro-batches run task by task, one graph at a time, and a gradient of each task
    is kept until all losses are known: T gradients of memory instead of the T graphs that one
    backward pass would need. So does a shared batch under FSDP2, where losses meet too late.
    """

    def fill(self, losses: Losses, weigh: Weigh) -> Weighted:
        """Leave the gradient of the weighted sum in `.grad`, in heads too."""
        call = self._one_call(losses)
        if call is not None:
            return self._one_pass(call, weigh)
        with self.by_rows(False):
            bank, order = self.of(losses)
        bank = bank.ordered(sorted(bank.tasks))
        found = self._weigh(bank, order, weigh)
        self._deliver(bank, found.weights.tolist())
        return found

    def _one_call(self, losses: Losses) -> SharedFn | None:
        """The one batch under all heads, if every process has just that."""
        given: Any = [losses] if callable(losses) else losses
        one = isinstance(given, Sequence) and len(given) == 1 and callable(given[0])
        if self.engine.group is not None:
            others = torch.tensor([float(not one)], dtype=torch.float64, device="cpu")
            sum_over(others, self.engine.group, self.parameters.tensors[0].device)
            one = not bool(others)
        return given[0] if one and self.shards is None else None

    def _one_pass(self, call: SharedFn, weigh: Weigh) -> Weighted:
        weights_moved()
        with self.engine.no_sync():
            own: dict[str, tuple[torch.Tensor, float]] = {}
            outcome: dict[str, tuple[float, float]] | Exception
            try:
                self._check_parameters()
                for task, (loss, items) in read_shared(call()).items():
                    own[task] = (loss, 1.0 if items is None else items)
                outcome = {task: (items, loss.item()) for task, (loss, items) in own.items()}
                self.extras = extras_of(SharedBatch([call]))
            except Exception as error:
                outcome = self._kept(error)
            joined = self._joined_losses(outcome)
            order = [*own, *(task for task in joined if task not in own)]
            found = self._weigh(_without_gradients(joined), order, weigh)
            weights = dict(zip(found.tasks, found.weights.tolist(), strict=True))
            bank: Bank | Exception
            try:
                shares = {task: weights[task] * own[task][1] / joined[task][0] for task in own}
                self.engine.backward(sum_of_losses({task: own[task][0] for task in own}, shares))
                gradients = self._reached(", ".join(own), self._taken())
                bank = Bank()
                bank.add("all tasks", gradients, self._processes, found.losses.sum(), 1.0)
            except Exception as error:
                bank = self._kept(error)
        self._deliver(self.joined(bank), [1.0])
        return found

    @property
    def _processes(self) -> float:
        """By what the mean over processes is multiplied to be their sum."""
        return 1.0 if self.engine.group is None else float(self.engine.group.size())

    def _kept(self, error: Exception) -> Exception:
        """An exception, until the other processes know of it; raised where there are none."""
        if self.engine.group is None:
            raise error
        return error

    def _joined_losses(
        self, outcome: dict[str, tuple[float, float]] | Exception
    ) -> dict[str, tuple[float, float]]:
        if self.engine.group is not None:
            return join_losses(outcome, self.engine.group)
        assert not isinstance(outcome, Exception)
        return outcome

    def _weigh(self, bank: Bank, order: list[str], weigh: Weigh) -> Weighted:
        losses = self.checked_losses(bank)
        finite = bool(torch.isfinite(losses).all())  # else a scaler is there to skip the step
        weights = weigh(bank.tasks, losses) if finite else torch.ones_like(losses)
        return Weighted(order, bank.tasks, losses, weights)

    def _deliver(self, bank: Bank, weights: list[float]) -> None:
        combined = bank.combine_all([weights] * len(self.parameters))
        put(self.parameters, list(map(deliver, self.parameters.tensors, combined)))


def _without_gradients(joined: Mapping[str, tuple[float, float]]) -> Bank:
    """The tasks by name and their losses, in the form in which losses are checked."""
    tasks = sorted(joined)
    values = [torch.tensor(joined[task][1], dtype=torch.float64, device="cpu") for task in tasks]
    return Bank(tasks=tasks, losses=values)


def sum_of_losses(losses: Mapping[str, torch.Tensor], weights: Mapping[str, float]) -> torch.Tensor:
    """One loss of many, where the first one is; half precision would round the weights."""
    first = next(iter(losses.values()))
    terms = [
        weights[task] * (loss.float() if loss.element_size() < 4 else loss).reshape(()).to(first.device)
        for task, loss in losses.items()
    ]
    return sum(terms[1:], terms[0])
