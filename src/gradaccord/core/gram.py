"""The Gram matrix of the task gradients in one pass over them, exact to float32 rounding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

import torch

from gradaccord.core.bank import Gradient, Rows, as_real

# Products are summed in the gradients' precision within a piece and in float64 between pieces. A
# plain float32 dot product over 10 million values is off by 1e-4; these pieces by less than 1e-6.
PIECE = 1 << 10
# What lies side by side at a time: on CPU a block of all tasks stays in the cache between its copy and
# its products, so that every gradient is read from memory once for all of them.
BLOCK = 1 << 15
ROWS = 1 << 17  # the same for gradients by rows, all tasks together
SUMMED_AT_ONCE = 1 << 17  # products that are added up while they are in the cache
BLOCKS_AT_ONCE_ON_ACCELERATOR = 64  # to launch fewer kernels

# Dot products [k, T, T] of k pieces, and the parameter that each piece is of.
Products: TypeAlias = tuple[torch.Tensor, list[int]]
# A parameter's position, and every task's values of it; None where a task does not reach it.
Column: TypeAlias = tuple[int, list[torch.Tensor | None]]


@torch.no_grad()
def gram(gradients: Sequence[Sequence[Gradient | None]]) -> torch.Tensor:
    """Dot products between all pairs of tasks, one matrix per parameter: [P, T, T], float64, on CPU.

    gradients[t][i] is task t's gradient for parameter i.
    """
    n_tasks, n_parameters = len(gradients), len(gradients[0])
    total = torch.zeros(n_parameters, n_tasks, n_tasks, dtype=torch.float64, device="cpu")
    waiting: dict[torch.device, list[Products]] = {}
    with _without_autocast(gradients):
        for found in _products(gradients):
            listed = waiting.setdefault(found[0].device, [])
            listed.append(found)
            if found[0].device.type == "cpu" and len(listed) * found[0].numel() > SUMMED_AT_ONCE:
                _add(total, listed)
    for listed in waiting.values():
        _add(total, listed)
    return total


def _add(total: torch.Tensor, listed: list[Products]) -> None:
    """Add products to those of their parameters; from an accelerator all in one transfer."""
    if listed:
        summed = torch.cat([products for products, _ in listed]).to("cpu").to(torch.float64)
        owners = torch.tensor([position for _, own in listed for position in own], device="cpu")
        total.index_add_(0, owners, summed)
        listed.clear()


@contextmanager
def _without_autocast(gradients: Sequence[Sequence[Gradient | None]]) -> Iterator[None]:
    """Autocast around the user's call would multiply in half precision, and overflow."""
    present = [g for task in gradients for g in task if g is not None]
    devices = {(g.values if isinstance(g, Rows) else g).device for g in present}
    with ExitStack() as stack:
        for kind in {device.type for device in devices}:
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def _products(gradients: Sequence[Sequence[Gradient | None]]) -> Iterator[Products]:
    dense: dict[tuple[torch.device, torch.dtype], list[Column]] = {}
    for position, column in enumerate(zip(*gradients, strict=True)):
        present = [g for g in column if g is not None]
        if not present:
            continue
        if all(isinstance(g, Rows) for g in present):
            yield from _of_rows(position, [g if isinstance(g, Rows) else None for g in column])
            continue
        whole = [g.dense() if isinstance(g, Rows) else g for g in column]
        flat = [None if g is None else as_real(g).reshape(-1) for g in whole]
        sample = next(f for f in flat if f is not None)
        if len(sample):  # else this process has no part of a small sharded parameter
            dense.setdefault((sample.device, _wide(sample.dtype)), []).append((position, flat))
    for (device, dtype), columns in dense.items():
        yield from _of_dense(columns, device, dtype)


def _of_dense(columns: list[Column], device: torch.device, dtype: torch.dtype) -> Iterator[Products]:
    """The tasks' values side by side in a block, every parameter from the start of a piece on."""
    if len(columns[0][1]) == 1 and device.type == "cpu":
        yield from _of_one_task(columns, dtype)
        return
    width = min(_width(device, BLOCK), sum(_whole_pieces(_size(flat)) for _, flat in columns))
    block = torch.empty(len(columns[0][1]), width, device=device, dtype=dtype)
    absent = block.new_zeros(width)
    rows: list[list[torch.Tensor]] = [[] for _ in columns[0][1]]  # what comes side by side next
    owners: list[int] = []
    for position, flat in columns:
        for part in _cut(flat, width, absent):
            size = part[0].shape[0]
            missing = _whole_pieces(size) - size
            if len(owners) * PIECE + size + missing > width:
                yield _multiplied(_filled(block[:, : len(owners) * PIECE], rows)), owners
                rows, owners = [[] for _ in part], []
            rest = [absent[:missing]] if missing else []
            for row, values in zip(rows, part, strict=True):
                row += [values, *rest]
            owners += [position] * ((size + missing) // PIECE)
    yield _multiplied(_filled(block[:, : len(owners) * PIECE], rows)), owners


def _filled(block: torch.Tensor, rows: list[list[torch.Tensor]]) -> torch.Tensor:
    """A block with every task's values, in as few calls as there can be."""
    if len(rows[0]) == 1:
        return torch.stack([row[0] for row in rows], out=block)
    for line, values in zip(block.unbind(), rows, strict=True):
        torch.cat(values, out=line)
    return block


def _of_one_task(columns: list[Column], dtype: torch.dtype) -> Iterator[Products]:
    """A lone task has nothing to lie beside: its values are read where they are."""
    for position, flat in columns:
        parts = [
            part.to(dtype)
            for values in flat
            if values is not None
            for part in torch.split(values, BLOCK)
        ]
        squares = torch.stack([torch.dot(part, part) for part in parts])
        yield squares[:, None, None], [position] * len(parts)


def _cut(
    flat: list[torch.Tensor | None], width: int, absent: torch.Tensor
) -> Iterator[list[torch.Tensor]]:
    """Every task's values in parts of at most `width`; zeros where a task does not reach them."""
    size = _size(flat)
    if size <= width:
        nothing = absent[:size] if any(values is None for values in flat) else absent
        yield [nothing if values is None else values for values in flat]
        return
    parts = [None if values is None else torch.split(values, width) for values in flat]
    for k, start in enumerate(range(0, size, width)):
        nothing = absent[: min(width, size - start)] if any(part is None for part in parts) else absent
        yield [nothing if part is None else part[k] for part in parts]


def _size(flat: list[torch.Tensor | None]) -> int:
    return next(values.shape[0] for values in flat if values is not None)


def _whole_pieces(size: int) -> int:
    return -(-size // PIECE) * PIECE


def _multiplied(block: torch.Tensor) -> torch.Tensor:
    """The products of each piece of a block: [T, k * PIECE] -> [k, T, T]."""
    pieces = block.view(len(block), -1, PIECE).transpose(0, 1)
    return torch.bmm(pieces, pieces.mT)


def _of_rows(position: int, column: Sequence[Rows | None]) -> Iterator[Products]:
    """The same for gradients that are zero outside some rows.

    Tasks meet in the rows that both touch. Rows that equally many tasks touch are multiplied
    together, so that no zeros are.
    """
    present = [(task, rows) for task, rows in enumerate(column) if rows is not None]
    values = torch.cat([as_real(rows.values).flatten(1) for _, rows in present])
    tasks = torch.cat([torch.full_like(rows.index, task) for task, rows in present])
    if not values.numel():
        return
    _, row, touched = torch.unique(
        torch.cat([rows.index for _, rows in present]), return_inverse=True, return_counts=True
    )
    order = torch.argsort(touched[row] * len(touched) + row)
    tasks = tasks[order]
    total = torch.zeros(len(column) ** 2, dtype=torch.float64, device="cpu")
    start = 0
    for n_tasks, n_rows in enumerate(torch.bincount(touched).tolist()):
        end = start + n_tasks * n_rows
        while start < end:
            at_once = max(1, _width(values.device, ROWS) // (n_tasks * values.shape[1])) * n_tasks
            piece = slice(start, min(start + at_once, end))
            start = piece.stop
            side_by_side = values[order[piece]].to(_wide(values.dtype))
            side_by_side = side_by_side.view(-1, n_tasks, values.shape[1])
            products = torch.bmm(side_by_side, side_by_side.mT).flatten().to("cpu")
            who = tasks[piece].view(-1, n_tasks).to("cpu")
            pairs = who[:, :, None] * len(column) + who[:, None, :]
            total.index_add_(0, pairs.flatten(), products.to(torch.float64))
    yield total.view(1, len(column), len(column)), [position]


def _width(device: torch.device, numbers: int) -> int:
    """How many numbers are multiplied at a time."""
    return numbers if device.type == "cpu" else numbers * BLOCKS_AT_ONCE_ON_ACCELERATOR


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32
