"""The base class of all methods: they replace `loss.backward()` and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

from gradaccord.core.losses import Losses
from gradaccord.core.report import StepReport

Reduction = Literal["sum", "mean"]  # of the tasks' gradients


class Method(ABC):
    """Leaves the update direction in `.grad`; optimiser, schedule and clipping stay the user's."""

    @abstractmethod
    def backward(self, losses: Losses) -> StepReport:
        """Compute the losses' gradients, combine them into `.grad`, and report what was measured.

        What stood in `.grad` before is replaced. On an exception `.grad` and the method's state
        are as before.
        """

    def after_step(self) -> None:  # noqa: B027
        """To be called after `optimizer.step()`; trajectory methods act here."""

    def finish(self) -> bool:
        """End what is under way: a trajectory, or a pair that has one batch so far.

        To be called at the end of training. True if that left a gradient in `.grad` to step on.
        """
        return False

    def outer_weights(self) -> AbstractContextManager[None]:
        """A block at the weights to evaluate and to save; only in a trajectory are they others."""
        return nullcontext()

    def state_dict(self) -> dict[str, Any]:
        """All that a run must save to continue exactly."""
        return {"method": type(self).__name__, **self._state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state; a fresh instance will do. Weights are the model's to load."""
        if state.get("method") != type(self).__name__:
            raise ValueError(
                f"The state was saved by {state.get('method')!r}, and this is {type(self).__name__!r}."
            )
        self._load(state)

    def _state(self) -> dict[str, Any]:
        """What a subclass has to save."""
        return {}

    def _load(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Take back what `_state` gave."""
