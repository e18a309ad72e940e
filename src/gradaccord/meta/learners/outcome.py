"""Outcome: what tasks add to a meta-iteration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.distributed import ProcessGroup

from gradaccord.meta.reduce import sum_over_processes


@dataclass
class Outcome:
    """Sums over one task, or over several that depend on each other."""

    gradients: list[torch.Tensor | None]  # in the order of the learner's trainable parameters
    loss: torch.Tensor  # of the queries, after the last step
    accuracy: torch.Tensor
    tasks: int
    spent: int  # batch gradients
    pairs: int = 0  # of mini-batches whose alignment was raised
    capped: int = 0  # of these, how many terms were shortened
    kept: dict[str, list[Any]] = field(default_factory=dict)  # state to take over if all is finite

    @classmethod
    def total(cls, outcomes: Iterator[Outcome]) -> Outcome:
        """The sum of several; each is computed after the one before is added."""
        total = next(outcomes)
        for outcome in outcomes:
            total._add(outcome)
        return total

    def _add(self, other: Outcome) -> None:
        places, own, more = [], [], []
        for place, (mine, theirs) in enumerate(zip(self.gradients, other.gradients, strict=True)):
            if mine is None:
                self.gradients[place] = theirs
            elif theirs is not None:
                places.append(place)
                own.append(mine)
                more.append(theirs)
        if places:  # not in place: autograd's own tensors may share memory
            for place, added in zip(places, torch._foreach_add(own, more), strict=True):
                self.gradients[place] = added
        self.loss = self.loss + other.loss
        self.accuracy = self.accuracy + other.accuracy
        self.tasks += other.tasks
        self.spent += other.spent
        self.pairs += other.pairs
        self.capped += other.capped
        for name, state in other.kept.items():
            self.kept.setdefault(name, []).extend(state)

    def sum_over_processes(self, group: ProcessGroup | None) -> None:
        """Add those of the other processes; `kept` stays each process's own."""
        if group is None:
            return
        counts = self.tasks, self.spent, self.pairs, self.capped
        sums = [float(self.loss), float(self.accuracy), *counts]
        numbers = torch.tensor(sums, dtype=torch.float64, device="cpu")
        self.gradients = [None if g is None else g.clone() for g in self.gradients]
        present = [gradient for gradient in self.gradients if gradient is not None]
        sum_over_processes([numbers, *present], group)
        self.loss, self.accuracy = numbers[0], numbers[1]
        self.tasks, self.spent, self.pairs, self.capped = map(int, numbers[2:].tolist())
