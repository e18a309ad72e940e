"""No activation checkpointing inside a learner's forward pass: it would compute with other weights.

A checkpoint runs its part of the model again in the backward pass. By then the module holds its own
weights, and no longer those of the inner loop: gradients would be silently wrong. So torch's two
kinds of checkpoint check here before they run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import CheckpointFunction

REFUSAL = (
    "The model uses activation checkpointing, which would compute again with its own weights and not "
    "with those of the inner loop: switch it off, as model.gradient_checkpointing_disable() does."
)


class _Here(threading.local):
    refuses = False


_here = _Here()


@contextmanager
def recomputation_refused() -> Iterator[None]:
    """A checkpoint that is met inside, on this thread, raises a RuntimeError."""
    before, _here.refuses = _here.refuses, True
    try:
        yield
    finally:
        _here.refuses = before


def _asking(run: Callable[..., Any]) -> Callable[..., Any]:
    def asked(*args: Any) -> Any:
        if _here.refuses:
            raise RuntimeError(REFUSAL)
        return run(*args)

    return asked


# The reentrant kind is a function of autograd's; the other is made of hooks for saved tensors.
setattr(CheckpointFunction, "forward", staticmethod(_asking(CheckpointFunction.forward)))  # noqa: B010
for hooks in saved_tensors_hooks.__subclasses__():
    if hooks.__module__ == CheckpointFunction.__module__:
        setattr(hooks, "__enter__", _asking(hooks.__enter__))  # noqa: B010
