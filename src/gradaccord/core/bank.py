"""The gradient bank: every task's gradient as autograd made it, until they are combined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from gradaccord.core.parameters import Parameters
from gradaccord.core.sharding import like, local


@dataclass(frozen=True)
class Rows:
    """A gradient that is zero outside some rows: `values[k]` belongs to row `index[k]` (sorted)."""

    index: torch.Tensor
    values: torch.Tensor
    shape: torch.Size
    sparse: bool  # autograd gave a sparse tensor (Embedding(sparse=True)); so must `.grad` be

    def dense(self) -> torch.Tensor:
        """The whole gradient, zeros included."""
        return self.values.new_zeros(self.shape).index_copy_(0, self.index, self.values)


Gradient: TypeAlias = torch.Tensor | Rows

SMALL = 1 << 16  # values up to which the gradients of several parameters are summed in one call
SUMMED_AS_THEY_ARE = (torch.float32, torch.float64)


@dataclass
class Bank:
    """Gradients by task and parameter position; None where a task does not reach a parameter.

    `factors[t]` turns what is stored into task t's gradient (of its mean loss, still times the
    engine's loss scale): it is kept apart so that no gradient has to be rescaled in memory.
    """

    tasks: list[str] = field(default_factory=list)
    gradients: list[list[Gradient | None]] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)
    losses: list[torch.Tensor] = field(default_factory=list)  # mean loss of each task
    items: list[float] = field(default_factory=list)  # how many items that mean is over

    def add(
        self,
        task: str,
        gradients: list[Gradient | None],
        factor: float,
        loss: torch.Tensor,
        items: float,
    ) -> None:
        """Add one task's gradients."""
        self.tasks.append(task)
        self.gradients.append(gradients)
        self.factors.append(factor)
        self.losses.append(loss)
        self.items.append(items)

    def ordered(self, tasks: Sequence[str]) -> Bank:
        """The same bank with its tasks in another order."""
        order = [self.tasks.index(task) for task in tasks]
        return Bank(
            tasks=list(tasks),
            gradients=[self.gradients[i] for i in order],
            factors=[self.factors[i] for i in order],
            losses=[self.losses[i] for i in order],
            items=[self.items[i] for i in order],
        )

    def reached(self) -> list[int]:
        """How many tasks reach each parameter."""
        return [sum(g is not None for g in column) for column in zip(*self.gradients, strict=True)]

    def combine(self, position: int, weights: Sequence[float]) -> Gradient | None:
        """The weighted sum of one parameter's gradients, which leave the bank.

        Dense gradients are summed into the first one in place; half-precision ones in float32.
        """
        terms = self.terms(position, weights)
        return weighted_sum(terms) if terms else None

    def terms(self, position: int, weights: Sequence[float]) -> list[tuple[Gradient, float]]:
        """One parameter's gradients, each with the weight of its term; they leave the bank."""
        terms = [
            (gradients[position], weight * factor)
            for gradients, weight, factor in zip(self.gradients, weights, self.factors, strict=True)
        ]
        for gradients in self.gradients:
            gradients[position] = None
        return [(gradient, weight) for gradient, weight in terms if gradient is not None]

    def combine_all(self, weights: Sequence[Sequence[float]]) -> list[Gradient | None]:
        """`combine` of every parameter; weights[i] are those of parameter i.

        Small ones of equal weights go through torch together, as a call takes longer than its sum.
        """
        together: dict[tuple[float, ...], list[int]] = {}
        combined: list[Gradient | None] = [None] * len(weights)
        for position, row in enumerate(weights):
            if self._is_small(position):
                together.setdefault(tuple(row), []).append(position)
            else:
                combined[position] = self.combine(position, row)
        for row, positions in together.items():
            for position, total in zip(positions, self._combine_small(positions, row), strict=True):
                combined[position] = total
        return combined

    def _is_small(self, position: int) -> bool:
        """Whether each task has a small dense gradient of it, to be summed in its own type."""
        for gradients in self.gradients:
            gradient = gradients[position]
            if not isinstance(gradient, torch.Tensor) or gradient.dtype not in SUMMED_AS_THEY_ARE:
                return False
            if gradient.numel() > SMALL:
                return False
        return True

    def _combine_small(self, positions: list[int], weights: Sequence[float]) -> list[torch.Tensor]:
        total: list[Any] = []
        for gradients, weight, factor in zip(self.gradients, weights, self.factors, strict=True):
            terms: list[Any] = [gradients[position] for position in positions]
            for position in positions:
                gradients[position] = None
            scale = weight * factor
            if total:
                torch._foreach_add_(total, terms, alpha=scale)
            else:
                total = terms
                if scale != 1.0:
                    torch._foreach_mul_(total, scale)
        return total


def weighted_sum(terms: list[tuple[Gradient, float]]) -> Gradient:
    """The sum of gradients of one parameter, each times its weight, in the first one's memory."""
    if all(isinstance(g, Rows) for g, _ in terms):
        return _sum_rows([(g, w) for g, w in terms if isinstance(g, Rows)])
    return _sum_dense([(g.dense() if isinstance(g, Rows) else g, w) for g, w in terms])


def _sum_dense(terms: list[tuple[torch.Tensor, float]]) -> torch.Tensor:
    first, weight = terms[0]
    half = first.dtype in (torch.float16, torch.bfloat16) and len(terms) > 1
    total = first.float() if half else first
    if weight != 1.0:
        total.mul_(weight)
    for gradient, weight in terms[1:]:
        total.add_(gradient, alpha=weight)
    return total.to(first.dtype)


def _sum_rows(terms: list[tuple[Rows, float]]) -> Rows:
    first = terms[0][0]
    union = union_of_rows([rows for rows, _ in terms])
    total = first.values.new_zeros((len(union), *first.values.shape[1:]))
    for rows, weight in terms:
        total.index_add_(0, torch.searchsorted(union, rows.index), rows.values, alpha=weight)
    return Rows(union, total, first.shape, first.sparse)


def as_real(gradient: torch.Tensor) -> torch.Tensor:
    """Complex numbers as pairs of real ones, whose dot product is theirs with the conjugate."""
    return torch.view_as_real(gradient.resolve_conj()) if gradient.is_complex() else gradient


def union_of_rows(gradients: Sequence[Rows]) -> torch.Tensor:
    """The rows that any of the gradients touches, sorted."""
    union: torch.Tensor = torch.unique(torch.cat([rows.index for rows in gradients]))
    return union


def take(parameters: Parameters) -> list[torch.Tensor | None]:
    """Pull every `.grad` off its parameter, leaving None: autograd's tensors, not copies."""
    gradients = [p.grad for p in parameters.tensors]
    for parameter, gradient in zip(parameters.tensors, gradients, strict=True):
        if gradient is not None:
            parameter.grad = None
    return gradients


def put(parameters: Parameters, gradients: Sequence[torch.Tensor | None]) -> None:
    """Set every `.grad`."""
    for parameter, gradient in zip(parameters.tensors, gradients, strict=True):
        parameter.grad = gradient


def compact(
    parameters: Parameters, gradients: Sequence[torch.Tensor | None], by_rows: bool = True
) -> list[Gradient | None]:
    """The form in which the bank keeps gradients: local shards, embeddings by the rows touched."""
    stored: list[Gradient | None] = []
    for position, given in enumerate(gradients):
        if given is None:
            stored.append(None)
            continue
        gradient = local(given)
        if gradient.is_sparse:
            stored.append(rows_of_sparse(gradient))
        elif by_rows and position in parameters.embeddings:
            stored.append(_rows_of_dense(gradient))
        else:
            stored.append(gradient)
    return stored


def rows_of_sparse(gradient: torch.Tensor) -> Rows:
    """What a sparse tensor holds, by the rows touched."""
    gradient = gradient.coalesce()
    if gradient.sparse_dim() != 1:
        raise ValueError(
            f"A sparse gradient of shape {tuple(gradient.shape)} has {gradient.sparse_dim()} sparse "
            "dimensions: only row-sparse gradients (embeddings) are supported."
        )
    return Rows(gradient.indices()[0], gradient.values(), gradient.shape, sparse=True)


def _rows_of_dense(gradient: torch.Tensor) -> Gradient:
    # The fastest exact test for a row of zeros: `any` of its bytes takes 0.6 of the time of `amax` and
    # `amin`.
    values = as_real(gradient).flatten(1).contiguous()
    octets = values.view(torch.uint8) if values.stride(-1) == 1 else values != 0
    index = torch.nonzero(octets.any(1)).flatten()
    if 2 * len(index) > gradient.shape[0]:
        return gradient
    return Rows(index, gradient.index_select(0, index), gradient.shape, sparse=False)


def accumulate(
    total: list[Gradient | None] | None, gradients: list[Gradient | None]
) -> list[Gradient | None]:
    """Add the gradients of one more micro-batch; the tensors of `total` are changed in place."""
    if total is None:
        return gradients
    pairs = zip(total, gradients, strict=True)
    return [
        new if old is None else old if new is None else weighted_sum([(old, 1.0), (new, 1.0)])
        for old, new in pairs
    ]


def sums_up(gradient: Gradient) -> torch.Tensor:
    """Whether the sum of its values is finite: then all are, and it takes half the time of `is_finite`.

    A sum that is not may have overflowed.
    """
    values = _stored_values(gradient)
    wide = torch.float64 if values.dtype == torch.float64 else torch.float32
    return torch.isfinite(values.sum(dtype=wide))


def is_finite(gradient: Gradient) -> torch.Tensor:
    """Whether it holds neither inf nor NaN (this process's part), as a tensor where the gradient is."""
    values = _stored_values(gradient)
    if not values.numel():
        return torch.ones((), dtype=torch.bool, device=values.device)
    # Both ends are NaN if a value is. 20 times faster than to look at every value with `isfinite`.
    return torch.isfinite(torch.stack(torch.aminmax(values))).all()


def _stored_values(gradient: Gradient) -> torch.Tensor:
    values = gradient.values if isinstance(gradient, Rows) else local(gradient)
    return as_real(values.coalesce().values() if values.is_sparse else values)


def deliver(parameter: torch.Tensor, gradient: Gradient | None) -> torch.Tensor | None:
    """The `.grad` of a parameter from what the bank gave: dense, sparse or sharded as it must be."""
    if isinstance(gradient, Rows):
        if gradient.sparse:
            return torch.sparse_coo_tensor(
                gradient.index[None],
                gradient.values,
                gradient.shape,
                is_coalesced=True,
                check_invariants=False,
            )
        gradient = gradient.dense()
    return None if gradient is None else like(parameter, gradient)
