"""Run a block in evaluation mode and leave no trace of it on the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from gradaccord.core.replay import RandomState
from gradaccord.core.temporary_weights import buffers_of, preserved


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards every module has its own mode back, frozen ones included.

    Buffers and torch's global random state are put back as well.
    """
    training = [(module, module.training) for module in model.modules()]
    start = RandomState.capture(model.parameters())
    model.eval()
    try:
        with preserved(buffers_of(model)):
            yield
    finally:
        start.restore()
        for module, mode in training:
            module.training = mode
