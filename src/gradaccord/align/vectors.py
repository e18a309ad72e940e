"""Gradients of one batch as a vector over the parameters, and the few things done with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch

from gradaccord.core.bank import Bank, Gradient, Rows
from gradaccord.core.gather import Gatherer
from gradaccord.core.gram import gram

Vector: TypeAlias = list[torch.Tensor | None]  # by parameter; None where nothing is reached


def vector_of(bank: Bank, task: str) -> Vector:
    """The stored gradient of one task, dense; the bank lets go of it."""
    position = bank.tasks.index(task)
    stored, bank.gradients[position] = bank.gradients[position], []
    return [g.dense() if isinstance(g, Rows) else g for g in stored]


def products(gatherer: Gatherer, *vectors: Vector) -> torch.Tensor:
    """Dot products between vectors, over all parameters and processes: [n, n], float64."""
    stored: list[list[Gradient | None]] = [list(vector) for vector in vectors]
    table = gram(stored)
    gatherer.agree_on(table)
    return table.sum(0)


@torch.no_grad()
def scale_(vector: Vector, factor: float) -> None:
    """vector <- factor * vector, in place."""
    tensors = [t for t in vector if t is not None]
    if factor != 1.0 and tensors:
        torch._foreach_mul_(tensors, factor)


@torch.no_grad()
def add_(total: Vector, vector: Vector, factor: float = 1.0) -> None:
    """total <- total + factor * vector, in place where both are; a copy where only `vector` is."""
    for i, (t, v) in enumerate(zip(total, vector, strict=True)):
        if v is not None and t is not None:
            t.add_(v, alpha=factor)
        elif v is not None:
            total[i] = v * factor


@torch.no_grad()
def combination(first: Vector, a: float, second: Vector, b: float) -> Vector:
    """a * first + b * second, a new vector."""
    result: Vector = [None if x is None else x * a for x in first]
    add_(result, second, b)
    return result


@torch.no_grad()
def flip_signs_(vector: Vector, generator: torch.Generator) -> None:
    """Give every coordinate a random sign: the same length, no direction."""
    for tensor in vector:
        if tensor is not None:
            signs = torch.randint(0, 2, tensor.shape, generator=generator, dtype=torch.int8)
            tensor.mul_(signs.to(tensor.device, tensor.dtype).mul_(2).sub_(1))


def none_like(parameters: Sequence[torch.Tensor]) -> Vector:
    """A vector that reaches nothing."""
    return [None] * len(parameters)
