"""Weights moved away for a moment and brought back bit for bit, together with the affected buffers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from gradaccord.core.bank import Gradient, Rows
from gradaccord.core.sharding import local


def weights_moved() -> None:
    """Call this after moving weights, and after moving them back: autocast forgets its casts.

    Autocast keeps them until its region ends, and would run the next pass with the old weights.
    """
    torch.clear_autocast_cache()


@contextmanager
def displaced(
    parameters: Sequence[torch.Tensor],
    direction: Sequence[Gradient | None],
    step: float,
    buffers: Iterable[torch.Tensor] = (),
    scratch: dict[int, torch.Tensor] | None = None,
) -> Iterator[None]:
    """Run a block at theta + step * direction; afterwards the weights are theta, bit for bit.

    Restored from a copy (theta + d - d is not theta in floating point), also when the block
    raises. `buffers` (running statistics) are put back too. Costs one copy of what moves: of an
    embedding, the rows in the direction. The copies stay in `scratch`, if given, for the next time:
    fresh memory costs more than what is written to it.
    """
    scratch = {} if scratch is None else scratch
    kept: list[tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]] = []  # weights, rows, values
    try:
        with preserved(buffers):
            with torch.no_grad():
                for i, (parameter, d) in enumerate(zip(parameters, direction, strict=True)):
                    weights = local(parameter.detach())
                    if isinstance(d, Rows):
                        kept.append((weights, d.index, weights.index_select(0, d.index)))
                        weights.index_add_(0, d.index, d.values.to(weights.dtype), alpha=step)
                    elif d is not None:
                        held = scratch.get(i)
                        if held is None or held.shape != weights.shape or held.dtype != weights.dtype:
                            held = scratch[i] = torch.empty_like(weights)
                        kept.append((weights, None, held.to(weights.device).copy_(weights)))
                        weights.add_(local(d).to(weights.dtype), alpha=step)
            weights_moved()
            yield
    finally:
        with torch.no_grad():
            for weights, rows, values in kept:
                if rows is None:
                    weights.copy_(values)
                else:
                    weights.index_copy_(0, rows, values)
        weights_moved()


@contextmanager
def preserved(buffers: Iterable[torch.Tensor]) -> Iterator[None]:
    """Run a block and put the given buffers back to what they were before it."""
    held = list(buffers)
    kept = [b.detach().clone() for b in held]
    try:
        yield
    finally:
        for buffer, old in zip(held, kept, strict=True):
            # By way of `.data`: graphs that hold the buffer stay valid (in training mode, where it
            # changes, their backward pass does not read it).
            buffer.data.copy_(old)


def buffers_of(model: object) -> list[torch.Tensor]:
    """The buffers of a module; nothing where only parameters are known."""
    return list(model.buffers()) if isinstance(model, nn.Module) else []
