"""Weights moved away for a moment and brought back bit for bit, with the buffers that saw it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from gradaccord.core.sharding import local


@contextmanager
def displaced(
    parameters: Sequence[torch.Tensor],
    direction: Sequence[torch.Tensor | None],
    step: float,
    buffers: Iterable[torch.Tensor] = (),
) -> Iterator[None]:
    """Run a block at theta + step * direction; afterwards the weights are theta, bit for bit.

    Restored from a copy (theta + d - d is not theta in floating point), also when the block
    raises. `buffers` (running statistics) are put back too. Costs one copy of what moves.
    """
    with torch.no_grad():
        pairs = zip(parameters, direction, strict=True)
        moved = [(local(p.detach()), local(d)) for p, d in pairs if d is not None]
        kept = [p.clone() for p, _ in moved]
    try:
        with preserved(buffers):
            with torch.no_grad():
                for p, d in moved:
                    p.add_(d.to(p.dtype), alpha=step)
            yield
    finally:
        with torch.no_grad():
            for (p, _), old in zip(moved, kept, strict=True):
                p.copy_(old)


@contextmanager
def preserved(buffers: Iterable[torch.Tensor]) -> Iterator[None]:
    """Run a block and put the given buffers back to what they were before it."""
    held = list(buffers)
    with torch.no_grad():
        kept = [b.detach().clone() for b in held]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, old in zip(held, kept, strict=True):
                buffer.copy_(old)


def buffers_of(model: object) -> list[torch.Tensor]:
    """The buffers of a module; nothing where only parameters are known."""
    return list(model.buffers()) if isinstance(model, nn.Module) else []
