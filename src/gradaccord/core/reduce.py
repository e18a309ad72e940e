"""Across processes: what they tell one another about a step, and small sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from gradaccord.core.bank import Bank
from gradaccord.core.failures import ProcessFailedError, message_of
from gradaccord.core.sharding import Shards


@dataclass(frozen=True)
class Summary:
    """What a process sends the others of its bank; `error` if it has none."""

    tasks: dict[str, tuple[float, float]]  # items, mean loss
    error: str | None = None
    layout: dict[str, list[Any]] = field(default_factory=dict)  # the form of each parameter's gradient
    units: dict[str, float] = field(default_factory=dict)  # of how many items a gradient is


def join_losses(
    outcome: dict[str, tuple[float, float]] | Exception, group: dist.ProcessGroup
) -> dict[str, tuple[float, float]]:
    """Every task's items and mean loss over all processes (DDP), from those of this one.

    A process that failed reports it here, and all raise.
    """
    if isinstance(outcome, Exception):
        exchanged(failure_of(outcome), group)
        raise outcome
    summaries = exchanged(Summary(outcome), group)
    raise_failures(summaries)
    return means_of(summaries)


def exchanged(own: Summary, group: dist.ProcessGroup) -> list[Summary]:
    """Every process's summary, in all of them."""
    summaries: list[Summary] = [own] * group.size()
    dist.all_gather_object(summaries, own, group=group)
    return summaries


def raise_failures(summaries: list[Summary]) -> None:
    """Raise what the first process that failed has said."""
    for rank, summary in enumerate(summaries):
        if summary.error is not None:
            raise ProcessFailedError(rank, len(summaries), summary.error)


def means_of(summaries: list[Summary]) -> dict[str, tuple[float, float]]:
    """Every task's items and mean loss: the first process's tasks first, then those that it lacks."""
    means = {}
    for task in dict.fromkeys(task for summary in summaries for task in summary.tasks):
        shares = [summary.tasks.get(task, (0.0, 0.0)) for summary in summaries]
        items = sum(count for count, _ in shares)
        means[task] = (items, sum(count * value for count, value in shares if count) / items)
    return means


def failure_of(error: Exception) -> Summary:
    """What a process that failed sends."""
    return Summary({}, message_of(error))


def join_shards(bank: Bank, shards: Shards) -> Bank:
    """Item counts and losses of the joined batch (FSDP2, which has summed the shards itself).

    FSDP2 averages over processes what was stored in units of one item.
    """
    table = torch.tensor(
        [[n, n * float(x)] for n, x in zip(bank.items, bank.losses, strict=True)],
        dtype=torch.float64,
        device="cpu",
    )
    world = 1
    for group in shards.groups:
        sum_over(table, group, shards.device)
        world *= group.size()
    items = table[:, 0].tolist()
    counted = [factor * n for factor, n in zip(bank.factors, bank.items, strict=True)]  # the unit
    return Bank(
        tasks=bank.tasks,
        gradients=bank.gradients,
        factors=[unit * world / n for unit, n in zip(counted, items, strict=True)],
        losses=list(table[:, 1] / table[:, 0]),
        items=items,
    )


def gathered(outcome: Any, groups: Sequence[dist.ProcessGroup]) -> list[Any]:
    """What every process brings; where one brings an exception, all of them raise."""
    failed = isinstance(outcome, Exception)
    sent: list[Any] = [(None, message_of(outcome)) if failed else (outcome, None)]
    for group in groups:  # hybrid sharding: first along one side of the mesh, then the other
        lists: list[list[Any]] = [[]] * group.size()
        dist.all_gather_object(lists, sent, group=group)
        sent = [item for items in lists for item in items]
    if failed:
        raise outcome
    for rank, (_, error) in enumerate(sent):
        if error is not None:
            raise ProcessFailedError(rank, len(sent), error)
    return [brought for brought, _ in sent]


def same_tasks(micro_batches: Mapping[str, int] | Exception, shards: Shards) -> list[str]:
    """The tasks in the first process's order; raises unless every process will run the same ones, in
    as many micro-batches each (FSDP2).

    There, forward and backward passes are collective: a process that runs others would wait for ever.
    `micro_batches` is the exception if this process has none, so that all of them raise.
    """
    brought = gathered(micro_batches, shards.groups)
    assert not isinstance(micro_batches, Exception)
    for rank, other in enumerate(brought):
        if other != micro_batches:
            raise ValueError(
                f"Process {rank} brings the tasks {_listed(other)} and this one "
                f"{_listed(micro_batches)}: under FSDP2 every process must bring the same tasks to a "
                "step, in equally many micro-batches."
            )
    return list(brought[0])


def _listed(micro_batches: Mapping[str, int]) -> str:
    return ", ".join(
        f"{task!r} ({n})" if n > 1 else repr(task) for task, n in sorted(micro_batches.items())
    )


def sum_over(table: torch.Tensor, group: dist.ProcessGroup, device: torch.device) -> None:
    """Sum a small CPU tensor over processes, through the device that the group communicates by."""
    moved = table.to(device)
    dist.all_reduce(moved, group=group)
    table.copy_(moved)


def first_one(table: torch.Tensor, group: dist.ProcessGroup, device: torch.device) -> None:
    """Give every process the first one's copy of a small CPU tensor."""
    moved = table.to(device)
    dist.broadcast(moved, group=group, group_src=0)
    table.copy_(moved)
