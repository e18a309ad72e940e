"""The base class of all methods: they replace `loss.backward()` and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Literal

from gradaccord.core.losses import Losses
from gradaccord.core.report import StepReport

Reduction = Literal["sum", "mean"]  # of the tasks' gradients


class Method(ABC):
    """Leaves the update direction in `.grad`; optimiser, schedule and clipping stay yours."""

    # Whether it weighs tasks against one another, so that it is plain training with one task.
    combines: ClassVar[bool] = False
    loss_only: ClassVar[bool] = False  # whether it decides by the losses alone, and reads no gradient

    @abstractmethod
    def backward(self, losses: Losses) -> StepReport:
        """Compute the losses' gradients, combine them into `.grad`, and report what was measured.

        Replaces what `.grad` held. After an exception, `.grad` and the method's state are unchanged.
        """

    def after_step(self) -> None:  # noqa: B027
        """Call this after `optimizer.step()`; trajectory methods act here."""

    def finish(self) -> bool:
        """End what is unfinished: a trajectory, or a pair that has only one batch so far.

        Call this at the end of training. If it returns True, `.grad` holds a gradient to step on.
        """
        return False

    def outer_weights(self) -> AbstractContextManager[None]:
        """A block in which the model holds the weights to evaluate and save, e.g. phi of Reptile."""
        return nullcontext()

    def state_dict(self) -> dict[str, Any]:
        """All that a run must save to continue exactly."""
        return {"method": type(self).__name__, **self._state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state, also in a fresh instance. Load the model's weights yourself."""
        if state.get("method") != type(self).__name__:
            raise ValueError(
                f"The state was saved by {state.get('method')!r}, and this is {type(self).__name__!r}."
            )
        self._load(state)

    def state_beside_model(self) -> dict[str, Any]:
        """The state to save beside a model that is saved inside `outer_weights`."""
        return {"method": self.state_dict(), "inner": {}}

    def load_beside_model(self, state: dict[str, Any]) -> None:
        """Continue from what `state_beside_model` returned, with the model as it was saved."""
        self.load_state_dict(state["method"])

    def _state(self) -> dict[str, Any]:
        """What a subclass has to save."""
        return {}

    def _load(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Restore what `_state` returned."""
