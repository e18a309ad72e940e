"""A batch of few-shot tasks: what every meta-learner is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

import torch


@dataclass(frozen=True)
class Task:
    """One task: a support set to adapt on and a query set to measure it on.

    Inputs are floats [examples, ...]; labels are class numbers 0..ways-1 (or regression targets).
    """

    support: torch.Tensor
    support_labels: torch.Tensor
    query: torch.Tensor
    query_labels: torch.Tensor

    @property
    def shapes(self) -> list[torch.Size]:
        """Of all tensors."""
        return [getattr(self, field.name).shape for field in fields(self)]


@dataclass(frozen=True)
class TaskBatch:
    """T tasks of the same shape, stacked along a first dimension [T, examples, ...]."""

    support: torch.Tensor
    support_labels: torch.Tensor
    query: torch.Tensor
    query_labels: torch.Tensor

    def __len__(self) -> int:
        return len(self.support)

    def __getitem__(self, place: int) -> Task:
        return Task(*(getattr(self, field.name)[place] for field in fields(self)))

    def __iter__(self) -> Iterator[Task]:
        return (self[place] for place in range(len(self)))

    def part(self, places: slice) -> TaskBatch:
        """Some of the tasks, as a batch (views, no copy)."""
        return self._map(lambda tensor: tensor[places])

    def to(self, target: torch.device | torch.dtype | str) -> TaskBatch:
        """Inputs, and labels that are not class numbers, on another device or in another dtype."""
        casts = isinstance(target, torch.dtype)
        return self._map(lambda t: t if casts and not t.is_floating_point() else t.to(target))

    def _map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> TaskBatch:
        return TaskBatch(*(change(getattr(self, field.name)) for field in fields(self)))


def stacked(tasks: Sequence[Task]) -> Task | TaskBatch:
    """Tasks of the same shape as one batch; one stays as it is."""
    if len(tasks) == 1:
        return tasks[0]
    return TaskBatch(*(torch.stack([getattr(t, f.name) for t in tasks]) for f in fields(TaskBatch)))


def count_of(task: Task | TaskBatch) -> int:
    """One, or how many tasks are stacked."""
    return len(task) if isinstance(task, TaskBatch) else 1
