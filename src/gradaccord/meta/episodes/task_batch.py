"""A batch of few-shot tasks: what every meta-learner is given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Task:
    """One task: a support set to adapt on and a query set to be judged by.

    Inputs are floats [examples, ...]; labels are class numbers 0..ways-1 (or regression targets).
    """

    support: torch.Tensor
    support_labels: torch.Tensor
    query: torch.Tensor
    query_labels: torch.Tensor


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
        return Task(
            self.support[place],
            self.support_labels[place],
            self.query[place],
            self.query_labels[place],
        )

    def __iter__(self) -> Iterator[Task]:
        return (self[place] for place in range(len(self)))

    def part(self, places: slice) -> TaskBatch:
        """Some of the tasks, as a batch (views, no copy)."""
        return TaskBatch(
            self.support[places],
            self.support_labels[places],
            self.query[places],
            self.query_labels[places],
        )

    def to(self, target: torch.device | torch.dtype | str) -> TaskBatch:
        """Inputs, and labels that are not class numbers, on another device or in another dtype."""
        if not isinstance(target, torch.dtype):
            return TaskBatch(
                self.support.to(target),
                self.support_labels.to(target),
                self.query.to(target),
                self.query_labels.to(target),
            )

        def cast(labels: torch.Tensor) -> torch.Tensor:
            return labels.to(target) if labels.is_floating_point() else labels

        return TaskBatch(
            self.support.to(target),
            cast(self.support_labels),
            self.query.to(target),
            cast(self.query_labels),
        )
