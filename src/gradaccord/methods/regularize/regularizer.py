"""The base class of regularisers, which wrap the losses that a method is given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from torch import nn

from gradaccord.core.losses import LossFn


class Regularizer(ABC):
    """A term that is added to every task's loss, e.g. `SMART`; it works with every method."""

    compares_outputs: ClassVar[bool] = False  # whether `loss` takes `kind`, `mask` and `counted`
    model: nn.Module
    network: nn.Module | None  # that it trains beside the model
    loss: Callable[..., LossFn]  # (forward, loss=None, task=...): the regularised loss of a batch

    @abstractmethod
    def after_step(self) -> None:
        """Call this after `optimizer.step()`."""

    @abstractmethod
    def to_floats(self) -> dict[str, float]:
        """What was measured last, for any logger."""

    @abstractmethod
    def training_state(self) -> dict[str, Any]:
        """What a run must save beside the model to continue exactly."""

    @abstractmethod
    def load_training_state(self, state: dict[str, Any]) -> None:
        """Continue from a saved training state."""
