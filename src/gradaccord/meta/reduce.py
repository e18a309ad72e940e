"""Sums over processes that share a batch of tasks: of results, and inside a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist

Result = TypeVar("Result")


def sum_over_processes(tensors: Sequence[torch.Tensor], group: dist.ProcessGroup) -> None:
    """Sum each tensor in place over the processes, in one message per dtype."""
    for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
        own = [tensor for tensor in tensors if tensor.dtype == dtype]
        flat = torch.cat([tensor.reshape(-1) for tensor in own])
        dist.all_reduce(flat, group=group)
        parts = torch.split(flat, [tensor.numel() for tensor in own])
        for tensor, part in zip(own, parts, strict=True):
            tensor.copy_(part.view_as(tensor))


class SumInGraph(torch.autograd.Function):
    """The sum over processes of a vector; its gradient is the sum of the gradients."""

    @staticmethod
    def forward(ctx: Any, vector: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        """Sum; all processes must call it in the same order."""
        ctx.group = group
        total = vector.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Sum the gradients likewise."""
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None


def agreed(run: Callable[[], Result], group: dist.ProcessGroup | None) -> tuple[Result, int]:
    """What `run` returns, and, if it is a list, how many items the processes before this one have.

    If it fails on one process it raises on all.
    """
    if group is None:
        return run(), 0
    result, error = None, None
    try:
        result = run()
    except Exception as problem:
        error = problem
    count = len(result) if isinstance(result, list) else 0
    answers: list[Any] = [None] * group.size()
    own = count if error is None else f"{type(error).__name__}: {error}"
    dist.all_gather_object(answers, own, group=group)
    if error is not None:
        raise error
    for rank, other in enumerate(answers):
        if isinstance(other, str):
            raise RuntimeError(f"Process {rank} of {len(answers)} failed: {other}")
    assert result is not None
    return result, sum(answers[: group.rank()])
