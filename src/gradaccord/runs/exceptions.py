"""The exceptions of a run that ends early: interrupted by Ctrl-C, or unable to continue."""

from __future__ import annotations

from gradaccord.runs.checkpoints import Checkpoints


class Interrupted(Exception):  # noqa: N818
    """The run ended by Ctrl-C; everything is saved."""


class TrainingError(RuntimeError):
    """Training cannot continue; the message says why, and what is kept."""


def what_is_saved(step: int, between_steps: bool, checkpoints: Checkpoints) -> str:
    """What a resumed run will continue from after Ctrl-C."""
    if between_steps:
        return f"Saved at step {step}."
    saved = checkpoints.all()
    last = f"the last checkpoint is {saved[-1].name}" if saved else "there is no checkpoint yet"
    return f"Stopped within a step, which is lost; {last}."
