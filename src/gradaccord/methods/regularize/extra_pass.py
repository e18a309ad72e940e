"""One more pass over a batch that leaves no trace: same dropout masks, buffers as they were."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn

from gradaccord.core.replay import RandomState
from gradaccord.core.temporary_weights import buffers_of, preserved


@contextmanager
def extra_pass(model: nn.Module, random: RandomState) -> Iterator[None]:
    """A block that sees the random numbers from `random` on, and keeps the model's buffers."""
    with preserved(buffers_of(model)), random.replayed():
        yield


@contextmanager
def eager() -> Iterator[None]:
    """A block in which compiled models run as if they were not: they do not see hooks set later."""
    with ExitStack() as stack:
        if "torch._dynamo" in sys.modules:  # otherwise nothing has been compiled
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


def check_forward(forward: object) -> None:
    """What computes a batch is called several times."""
    if not callable(forward):
        raise TypeError(
            f"`forward` must be a callable without arguments, got {type(forward).__name__}: "
            "e.g. functools.partial(model, **batch)."
        )
