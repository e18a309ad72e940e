"""The Gram matrix of the task gradients, exact to float32 rounding at any size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch

from gradaccord.core.bank import Gradient, Rows, as_real, union_of_rows

# Products are summed in the gradients' precision within a block and in float64 between blocks. A
# plain float32 dot product over 10 million values is off by 1e-4; blocks of this size by 1e-6.
# On CPU a block of all tasks also stays in the cache between its copy and its product.
BLOCK = 1 << 15
BLOCKS_AT_ONCE_ON_ACCELERATOR = 64  # to launch fewer kernels
FEW = 3  # up to so many tasks, products pair by pair are faster than a copy side by side


@torch.no_grad()
def gram(gradients: Sequence[Sequence[Gradient | None]]) -> torch.Tensor:
    """Dot products between all pairs of tasks, one matrix per parameter: [P, T, T], float64, on CPU.

    gradients[t][i] is task t's gradient for parameter i.
    """
    n_tasks, n_parameters = len(gradients), len(gradients[0])
    products: dict[torch.device, list[torch.Tensor]] = {}
    owners: dict[torch.device, list[int]] = {}
    with _without_autocast(gradients):
        for position in range(n_parameters):
            column = [task[position] for task in gradients]
            if all(g is None for g in column):
                continue
            for product in _products(column):
                products.setdefault(product.device, []).append(product)
                owners.setdefault(product.device, []).extend([position] * len(product))
    total = torch.zeros(n_parameters, n_tasks, n_tasks, dtype=torch.float64, device="cpu")
    for device, parts in products.items():
        summed = torch.cat(parts).to("cpu").to(torch.float64)  # the one transfer from the device
        total.index_add_(0, torch.tensor(owners[device], device="cpu"), summed)
    return total


@contextmanager
def _without_autocast(gradients: Sequence[Sequence[Gradient | None]]) -> Iterator[None]:
    """Autocast around the user's call would multiply in half precision, and overflow."""
    present = [g for task in gradients for g in task if g is not None]
    kinds = {(g.values if isinstance(g, Rows) else g).device.type for g in present}
    with ExitStack() as stack:
        for kind in kinds:
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def _products(column: Sequence[Gradient | None]) -> Iterator[torch.Tensor]:
    """One parameter's dot products, block by block: [k, T, T]; who does not reach it has zeros."""
    present = [g for g in column if g is not None]
    if all(isinstance(g, Rows) for g in present):
        for block in _row_blocks([g if isinstance(g, Rows) else None for g in column]):
            yield block @ block.mT
        return
    dense = [g.dense() if isinstance(g, Rows) else g for g in column]
    flat = [None if g is None else as_real(g).reshape(-1) for g in dense]
    whole = [f for f in flat if f is not None and f.dtype == _wide(f.dtype)]
    if not len(next(f for f in flat if f is not None)):
        return  # this process has no part of a small sharded parameter
    if len(whole) == len(flat) <= FEW:
        yield from _pairwise(whole)
    else:
        for block in _dense_blocks(flat):
            yield block @ block.mT


def _pairwise(flat: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Few tasks: their vectors are multiplied where they lie."""
    rows = [list(_pieces(vector[None])) for vector in flat]
    for pieces in zip(*rows, strict=True):
        product = pieces[0].new_empty(len(pieces[0]), len(flat), len(flat))
        for i, one in enumerate(pieces):
            for j, other in enumerate(pieces[: i + 1]):
                product[:, i, j] = product[:, j, i] = (one @ other.mT)[:, 0, 0]
        yield product


def _dense_blocks(flat: Sequence[torch.Tensor | None]) -> Iterator[torch.Tensor]:
    """Many tasks: a block of each is put side by side, in a buffer that stays in the cache."""
    sample = next(g for g in flat if g is not None)
    width = BLOCK if sample.device.type == "cpu" else BLOCK * BLOCKS_AT_ONCE_ON_ACCELERATOR
    width = min(width, len(sample))
    buffer = sample.new_empty((len(flat), width), dtype=_wide(sample.dtype))
    absent = sample.new_zeros(width if None in flat else 0)
    for start in range(0, len(sample), width):
        length = min(width, len(sample) - start)
        block = buffer[:, :length]
        torch.stack(
            [absent[:length] if g is None else g[start : start + length] for g in flat], out=block
        )
        yield from _pieces(block)


def _pieces(block: torch.Tensor) -> Iterator[torch.Tensor]:
    """[T, n] cut into pieces of BLOCK: [k, T, BLOCK], and the rest."""
    whole = block.shape[1] // BLOCK * BLOCK
    if whole:
        yield block[:, :whole].view(len(block), -1, BLOCK).transpose(0, 1)
    if whole < block.shape[1]:
        yield block[None, :, whole:]


def _row_blocks(column: Sequence[Rows | None]) -> Iterator[torch.Tensor]:
    """Blocks over the union of the rows touched."""
    present = [rows for rows in column if rows is not None]
    union = union_of_rows(present)
    values = [None if rows is None else as_real(rows.values).flatten(1) for rows in column]
    sample = next(v for v in values if v is not None)
    width = max(1, BLOCK // max(1, sample.shape[1]))
    starts = torch.arange(0, len(union) + width, width, device=union.device)
    places = [None if rows is None else torch.searchsorted(union, rows.index) for rows in column]
    bounds = [None if p is None else torch.searchsorted(p, starts).tolist() for p in places]
    for k, start in enumerate(range(0, len(union), width)):
        block = sample.new_zeros((len(column), width, sample.shape[1]), dtype=_wide(sample.dtype))
        for rows, value, place, bound in zip(block, values, places, bounds, strict=True):
            if value is not None and place is not None and bound is not None:
                piece = slice(bound[k], bound[k + 1])
                rows[place[piece] - start] = value[piece].to(rows.dtype)
        yield block.flatten(1)[None]


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32
