"""The mean loss of a task over micro-batches whose number of items is known only at the end."""

from __future__ import annotations

from collections.abc import Callable

import torch


class MeanLoss:
    """The mean loss of one task over its micro-batches, each weighted by its number of items.

    The total is unknown until the last micro-batch, so gradients are stored in units of the first
    one's count (which keeps them near their true size) and the rest is left to the bank's factor.
    Under FSDP2 the unit must agree between processes before they have met: it is 1.

    unit_of: the unit by the first micro-batch's count.
    """

    def __init__(self, task: str, unit_of: Callable[[float], float]) -> None:
        self.task = task
        self.unit = 1.0
        self.unit_of = unit_of
        self.items = 0.0
        self.counted: bool | None = None
        self.loss = torch.zeros((), device="cpu")
        self.last: tuple[float, torch.Tensor] = (0.0, self.loss)

    def add(self, loss: torch.Tensor, items: float | None) -> torch.Tensor:
        """Count a micro-batch in; run what is returned backward."""
        if self.counted is None:
            self.counted = items is not None
            if items is not None:
                self.unit = self.unit_of(items)
        elif self.counted != (items is not None):
            raise ValueError(
                f"Task {self.task!r} returned the number of items for some micro-batches and not "
                "for others: return it always or never."
            )
        count = 1.0 if items is None else items
        self.last = (self.items, self.loss)
        self.items += count
        self.loss = self.loss.to(loss.device) + loss.detach().reshape(()) * count
        return loss if count == self.unit else loss * (count / self.unit)

    def result(self) -> tuple[float, torch.Tensor, float]:
        """The factor from what is stored to the mean's gradient, the mean loss, and its items."""
        return self.unit / self.items, self.loss / self.items, self.items

    def undo(self) -> None:
        """Take the last micro-batch back."""
        self.items, self.loss = self.last
