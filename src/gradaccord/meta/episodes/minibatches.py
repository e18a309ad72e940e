"""Mini-batches out of a task's examples: shuffled passes, as supervised-reptile draws them."""

from __future__ import annotations

from collections.abc import Iterator

import torch


def minibatches(
    examples: int, size: int | None, count: int, generator: torch.Generator
) -> Iterator[torch.Tensor]:
    """Positions of `count` batches; the examples are reshuffled after each pass over them.

    A batch may extend over the end of a pass. Without a size each batch is the whole set.
    """
    if size is None or size >= examples:
        whole = torch.arange(examples, device="cpu")
        yield from (whole for _ in range(count))
        return
    rest = torch.empty(0, dtype=torch.int64, device="cpu")
    for _ in range(count):
        while len(rest) < size:
            rest = torch.cat([rest, torch.randperm(examples, generator=generator, device="cpu")])
        yield rest[:size]
        rest = rest[size:]


def pairs(
    examples: int, size: int | None, count: int, generator: torch.Generator
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Positions of `count` pairs of disjoint batches; without a size, of halves."""
    size = examples // 2 if size is None else size
    if not 0 < 2 * size <= examples:
        raise ValueError(
            f"`inner_batch` is {size} and the support set has {examples} examples, too few for two "
            "disjoint mini-batches: give more shots or a smaller `inner_batch`."
        )
    rest = torch.empty(0, dtype=torch.int64, device="cpu")
    for _ in range(count):
        if len(rest) < 2 * size:
            rest = torch.randperm(examples, generator=generator, device="cpu")
        yield rest[:size], rest[size : 2 * size]
        rest = rest[2 * size :]
