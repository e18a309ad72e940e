"""No activation checkpointing inside a learner's forward pass: it would compute with other weights.

A checkpoint runs its part of the model again in the backward pass. By then the module holds its own
weights, and no longer those of the inner loop: gradients would be wrong without a word. torch's two
kinds are refused, whoever calls them: the one without reentrant autograd works by saved-tensor hooks,
which torch can forbid; the reentrant one is asked before it runs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.autograd.graph import disable_saved_tensors_hooks
from torch.utils.checkpoint import CheckpointFunction

REFUSAL = (
    "Activation checkpointing (or another saved-tensor hook) is on in the model or around the call, and "
    "would compute again with the model's own weights and not with those of the inner loop: switch it "
    "off, for example by model.gradient_checkpointing_disable()."
)


class _Here(threading.local):
    refuses = False


_here = _Here()
_checkpoint = CheckpointFunction.forward


def _checkpoint_unless_refused(ctx: Any, *args: Any) -> Any:
    if _here.refuses:
        raise RuntimeError(REFUSAL)
    return _checkpoint(ctx, *args)


CheckpointFunction.forward = staticmethod(_checkpoint_unless_refused)


@contextmanager
def recomputation_refused() -> Iterator[None]:
    """A checkpoint that is met inside, on this thread, raises a RuntimeError."""
    before, _here.refuses = _here.refuses, True
    try:
        with disable_saved_tensors_hooks(REFUSAL):
            yield
    finally:
        _here.refuses = before
