"""The protocol that every method follows: it replaces `loss.backward()` and nothing else."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from gradaccord.core.losses import Losses
from gradaccord.core.report import StepReport


@runtime_checkable
class Method(Protocol):
    """Leaves the update direction in `.grad`; optimiser, schedule and clipping stay the user's."""

    def backward(self, losses: Losses) -> StepReport:
        """Compute the losses' gradients, combine them into `.grad`, and say what was seen.

        What stood in `.grad` before is replaced. On an exception `.grad` and the method's state
        are as before.
        """
        ...

    def after_step(self) -> None:
        """To be called after `optimizer.step()`; trajectory methods act here."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All that a run must save to continue exactly."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state; a fresh instance will do."""
        ...
