"""The gradient bank in less memory: in half the bytes (`memory="half"`) or on the host (`"cpu"`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from gradaccord.core.bank import Bank, Gradient, Rows, accumulate, as_real, deliver, union_of_rows
from gradaccord.core.gram import gram
from gradaccord.core.overlap import join
from gradaccord.core.reduce import join_shards
from gradaccord.core.sharding import local
from gradaccord.core.task_gradients import TaskGradients

# So many numbers of each task are brought back to the accelerator at a time for dot products.
PIECE = 1 << 22


class SmallerBank(TaskGradients):
    """Base class: a gradient is stored in another form, and read back parameter by parameter."""

    sends_early = False  # sums that wait to be taken are whole gradients

    def store(self, gradient: Gradient) -> Gradient:
        """The form in which the bank keeps a gradient."""
        raise NotImplementedError

    def _keep(self, task: str, held: dict[str, list[Gradient | None]]) -> None:
        new, old = self._taken(), held.get(task)
        for position, gradient in enumerate(new):  # one by one, so that whole ones make room
            kept = None if old is None else old[position]
            if kept is not None and gradient is not None:
                (gradient,) = accumulate([self._read(position, kept)], [gradient])
            new[position] = kept if gradient is None else self.store(gradient)
        held[task] = new

    def _read(self, position: int, gradient: Gradient) -> Gradient:
        """A stored gradient in the precision and at the place of its parameter."""
        target = self.parameters.tensors[position]
        return _moved(gradient, target.device, target.dtype)

    def joined(self, outcome: Bank | Exception) -> Bank:
        if self.engine.group is not None:
            return join(outcome, self.parameters.tensors, self.engine.group, self._stored)
        assert not isinstance(outcome, Exception)
        return outcome if self.shards is None else join_shards(outcome, self.shards)

    def _stored(self, gradients: list[Gradient | None]) -> list[Gradient | None]:
        return [None if gradient is None else self.store(gradient) for gradient in gradients]

    def combined(self, bank: Bank, weights: Sequence[list[float]]) -> list[torch.Tensor | None]:
        return [
            deliver(parameter, self._sum(bank, position, own))
            for position, (parameter, own) in enumerate(
                zip(self.parameters.tensors, weights, strict=True)
            )
        ]

    def _sum(self, bank: Bank, position: int, weights: Sequence[float]) -> Gradient | None:
        """The weighted sum of one parameter's gradients, which leave the bank."""
        terms = bank.terms(position, weights)
        if not terms:
            return None
        return self._summed(local(self.parameters.tensors[position].detach()), terms)

    def _summed(self, target: torch.Tensor, terms: Sequence[tuple[Gradient, float]]) -> Gradient:
        """A weighted sum like `target`, in float32 at least, with one term there at a time."""
        wide = torch.promote_types(target.dtype, torch.float32)
        rows = [g for g, _ in terms if isinstance(g, Rows)]
        all_rows = len(rows) == len(terms)
        union = union_of_rows(rows).to(target.device) if all_rows else None
        shape = target.shape if union is None else (len(union), *target.shape[1:])
        total = target.new_zeros(shape, dtype=wide)
        for stored, weight in terms:
            term = _moved(stored, target.device, wide)
            if isinstance(term, Rows):
                place = term.index if union is None else torch.searchsorted(union, term.index)
                total.index_add_(0, place, term.values, alpha=weight)
            else:
                total.add_(term, alpha=weight)
        total = total.to(target.dtype)
        return total if union is None else replace(rows[0], index=union, values=total)


class HalfBank(SmallerBank):
    """Keeps gradients in bfloat16: T/2 gradients of memory.

    Each number is off by at most 2^-9 of itself. Dot products and sums are formed in float32.
    """

    def store(self, gradient: Gradient) -> Gradient:
        if isinstance(gradient, Rows):
            return replace(gradient, values=_narrow(gradient.values))
        return _narrow(gradient)


class HostBank(SmallerBank):
    """Keeps gradients in pinned memory of the host and brings them back to the accelerator piece by
    piece, for dot products and for the sum. On a CPU the bank lies there as it is.
    """

    def store(self, gradient: Gradient) -> Gradient:
        if isinstance(gradient, Rows):
            return replace(gradient, values=_on_host(gradient.values))
        return _on_host(gradient)

    def _products(self, bank: Bank) -> torch.Tensor:
        n_tasks, n_parameters = len(bank.tasks), len(self.parameters)
        total = torch.zeros(n_parameters, n_tasks, n_tasks, dtype=torch.float64, device="cpu")
        for position in range(n_parameters):
            column = [gradients[position] for gradients in bank.gradients]
            device = self.parameters.tensors[position].device
            for piece in _pieces(column):
                moved = [None if g is None else _moved(g, device) for g in piece]
                total[position] += gram([[g] for g in moved])[0]
        return total


def _narrow(values: torch.Tensor) -> torch.Tensor:
    wide = values.is_floating_point() and values.element_size() > 2  # complex numbers stay whole
    return values.to(torch.bfloat16) if wide else values


def _on_host(values: torch.Tensor) -> torch.Tensor:
    if values.device.type == "cpu":
        return values
    host = torch.empty(values.shape, dtype=values.dtype, device="cpu", pin_memory=True)
    return host.copy_(values, non_blocking=True)  # what reads it back is queued behind it


def _moved(gradient: Gradient, device: torch.device, dtype: torch.dtype | None = None) -> Gradient:
    """A gradient at another place, and in another precision if one is given."""
    if isinstance(gradient, Rows):
        values = gradient.values.to(device, dtype or gradient.values.dtype, non_blocking=True)
        return replace(gradient, index=gradient.index.to(device), values=values)
    return gradient.to(device, dtype or gradient.dtype, non_blocking=True)


def _pieces(column: Sequence[Gradient | None]) -> Iterator[Sequence[Gradient | None]]:
    """One parameter's gradients in pieces of bounded size; by rows, they are small already."""
    present = [g for g in column if g is not None]
    if not present:
        return
    if any(isinstance(g, Rows) for g in present):
        yield column
        return
    flat = [None if g is None else as_real(g).reshape(-1) for g in column if not isinstance(g, Rows)]
    for start in range(0, max(len(f) for f in flat if f is not None), PIECE):
        yield [None if f is None else f[start : start + PIECE] for f in flat]
