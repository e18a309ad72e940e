"""One more pass over a batch that leaves no trace: same dropout masks, buffers as they were."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn

from gradaccord.core.displaced import buffers_of
from gradaccord.core.replay import RandomState


@contextmanager
def extra_pass(model: nn.Module, random: RandomState) -> Iterator[None]:
    """A block that sees the random numbers from `random` on, and keeps the model's buffers."""
    with same_buffers(model), random.replayed():
        yield


@contextmanager
def same_buffers(model: nn.Module) -> Iterator[None]:
    """A block after which the buffers (running statistics) are what they were before it."""
    held = buffers_of(model)
    kept = [b.detach().clone() for b in held]
    try:
        yield
    finally:
        for buffer, old in zip(held, kept, strict=True):
            # By way of `.data`: graphs that hold the buffer stay valid (in training mode, where it
            # changes, their backward pass does not read it).
            buffer.data.copy_(old)


@contextmanager
def eager() -> Iterator[None]:
    """A block in which compiled models run as if they were not: they do not see hooks set later."""
    with ExitStack() as stack:
        if "torch._dynamo" in sys.modules:  # otherwise nothing has been compiled
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield
