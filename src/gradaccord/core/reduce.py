"""Across processes: each task's gradient becomes that of the joined batch before any is combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from gradaccord.core.bank import Bank, Gradient, Rows
from gradaccord.core.sharding import Shards


@dataclass(frozen=True)
class _Summary:
    """What a process sends the others of its bank; `error` if it has none."""

    tasks: dict[str, tuple[float, float]]  # items, mean loss
    layout: dict[str, list[Any]]  # per parameter: None, "dense", or the touched rows as a list
    error: str | None


def join(
    outcome: Bank | Exception, parameters: Sequence[torch.Tensor], group: dist.ProcessGroup
) -> Bank:
    """The bank of the joined batch, the same on every process (DDP).

    Sums each task's gradients over processes, weighted by item counts. Tasks may come in another
    order on each process, or be missing on some: the bank has them in the first process's order, those
    that it lacks behind. A row that any process touched is summed over all.
    A process that failed reports it here, and all raise instead of waiting for it.
    """
    summaries = _exchanged(_summary(outcome), group)
    if isinstance(outcome, Exception):
        raise outcome
    _raise_failures(summaries)
    bank = outcome
    joined = Bank()
    for task, (items, loss) in _means(summaries).items():
        layout = _common_layout([s.layout[task] for s in summaries if task in s.tasks])
        mine: list[Gradient | None] = [None] * len(parameters)
        weight = 0.0
        if task in bank.tasks:
            i = bank.tasks.index(task)
            mine, bank.gradients[i] = bank.gradients[i], []  # freed task by task
            weight = bank.factors[i] * bank.items[i] / items
        gradients = _summed(mine, weight, layout, parameters, group)
        joined.add(task, gradients, 1.0, torch.tensor(loss, dtype=torch.float64, device="cpu"), items)
    return joined


def join_losses(
    outcome: dict[str, tuple[float, float]] | Exception, group: dist.ProcessGroup
) -> dict[str, tuple[float, float]]:
    """Every task's items and mean loss over all processes (DDP), from those of this one.

    A process that failed reports it here, and all raise.
    """
    if isinstance(outcome, Exception):
        _exchanged(_summary(outcome), group)
        raise outcome
    summaries = _exchanged(_Summary(outcome, {}, None), group)
    _raise_failures(summaries)
    return _means(summaries)


def _exchanged(own: _Summary, group: dist.ProcessGroup) -> list[_Summary]:
    summaries: list[_Summary] = [own] * group.size()
    dist.all_gather_object(summaries, own, group=group)
    return summaries


def _raise_failures(summaries: list[_Summary]) -> None:
    for rank, summary in enumerate(summaries):
        if summary.error is not None:
            raise RuntimeError(f"Process {rank} of {len(summaries)} failed: {summary.error}")


def _means(summaries: list[_Summary]) -> dict[str, tuple[float, float]]:
    """Every task's items and mean loss: the first process's tasks first, then those that it lacks."""
    means = {}
    for task in dict.fromkeys(task for summary in summaries for task in summary.tasks):
        shares = [summary.tasks.get(task, (0.0, 0.0)) for summary in summaries]
        items = sum(count for count, _ in shares)
        means[task] = (items, sum(count * value for count, value in shares if count) / items)
    return means


def _summary(bank: Bank | Exception) -> _Summary:
    if isinstance(bank, Exception):
        return _Summary({}, {}, _message(bank))
    return _Summary(
        tasks={
            task: (items, float(loss))
            for task, items, loss in zip(bank.tasks, bank.items, bank.losses, strict=True)
        },
        layout={
            task: [_form(g) for g in gradients]
            for task, gradients in zip(bank.tasks, bank.gradients, strict=True)
        },
        error=None,
    )


def _form(gradient: Gradient | None) -> Any:
    if isinstance(gradient, Rows):
        return gradient.index.to("cpu"), gradient.sparse
    return None if gradient is None else "dense"


def _common_layout(layouts: list[list[Any]]) -> list[Any]:
    """Per parameter, the form that holds every process's gradient."""
    common: list[Any] = []
    for forms in zip(*layouts, strict=True):
        present = [form for form in forms if form is not None]
        if not present:
            common.append(None)
        elif "dense" in [form for form in present if isinstance(form, str)]:
            common.append("dense")
        else:
            rows = torch.unique(torch.cat([index for index, _ in present]))
            common.append((rows, present[0][1]))
    return common


def _summed(
    mine: list[Gradient | None],
    weight: float,
    layout: list[Any],
    parameters: Sequence[torch.Tensor],
    group: dist.ProcessGroup,
) -> list[Gradient | None]:
    """All-reduce one task's gradients in one flat buffer per precision; the results are views of it."""
    shapes: dict[int, tuple[int, ...]] = {}
    kinds: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for position, (form, parameter) in enumerate(zip(layout, parameters, strict=True)):
        if form is None:
            continue
        dense = isinstance(form, str)
        shapes[position] = tuple(parameter.shape) if dense else (len(form[0]), *parameter.shape[1:])
        kinds.setdefault((parameter.device, parameter.dtype), []).append(position)
    result: list[Gradient | None] = [None] * len(parameters)
    for (device, dtype), positions in kinds.items():
        sizes = [torch.Size(shapes[i]).numel() for i in positions]
        flat = torch.zeros(sum(sizes), device=device, dtype=dtype)
        views = dict(zip(positions, torch.split(flat, sizes), strict=True))
        for i in positions:
            _write(views[i].view(shapes[i]), mine[i], layout[i])
            mine[i] = None
        flat.mul_(weight)
        dist.all_reduce(flat, group=group)
        for i in positions:
            view = views[i].view(shapes[i])
            if isinstance(layout[i], str):
                result[i] = view
            else:
                index, sparse = layout[i]
                result[i] = Rows(index.to(device), view, parameters[i].shape, sparse)
    return result


def _write(target: torch.Tensor, gradient: Gradient | None, form: Any) -> None:
    if isinstance(gradient, Rows):
        if isinstance(form, str):
            target.index_copy_(0, gradient.index, gradient.values)
        else:
            place = torch.searchsorted(form[0].to(target.device), gradient.index)
            target.index_copy_(0, place, gradient.values)
    elif gradient is not None:
        target.copy_(gradient)


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


def same_tasks(micro_batches: Mapping[str, int] | Exception, shards: Shards) -> list[str]:
    """The tasks in the first process's order; raises unless every process will run the same ones, in
    as many micro-batches each (FSDP2).

    There, forward and backward passes are collective: a process that runs others would wait for ever.
    `micro_batches` is the exception if this process has none, so that all of them raise.
    """
    sent: Any = [
        _message(micro_batches) if isinstance(micro_batches, Exception) else dict(micro_batches)
    ]
    for group in shards.groups:  # hybrid sharding: first along one side of the mesh, then the other
        lists: list[list[Any]] = [[]] * group.size()
        dist.all_gather_object(lists, sent, group=group)
        sent = [item for items in lists for item in items]
    if isinstance(micro_batches, Exception):
        raise micro_batches
    for rank, other in enumerate(sent):
        if isinstance(other, str):
            raise RuntimeError(f"Process {rank} of {len(sent)} failed: {other}")
        if other != micro_batches:
            raise ValueError(
                f"Process {rank} brings the tasks {_listed(other)} and this one "
                f"{_listed(micro_batches)}: under FSDP2 every process must bring the same tasks to a "
                "step, in equally many micro-batches."
            )
    return list(sent[0])


def _listed(micro_batches: Mapping[str, int]) -> str:
    return ", ".join(
        f"{task!r} ({n})" if n > 1 else repr(task) for task, n in sorted(micro_batches.items())
    )


def _message(error: Exception) -> str:
    """An exception as it is sent to the other processes."""
    return " ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])


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
