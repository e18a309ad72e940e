"""Gradients of one batch as a vector over the parameters, and a few operations on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import torch

from gradaccord.core.bank import Bank, Gradient, Rows, weighted_sum
from gradaccord.core.gram import gram
from gradaccord.core.task_gradients import TaskGradients

# By parameter: dense, the rows touched, or None where nothing is reached.
Vector: TypeAlias = list[Gradient | None]

SMALL = 1 << 12  # numbers in a tensor that is not worth a call of its own


def vector_of(bank: Bank, task: str) -> Vector:
    """The stored gradient of one task, which leaves the bank."""
    position = bank.tasks.index(task)
    stored, bank.gradients[position] = bank.gradients[position], []
    return stored


def products(gradients: TaskGradients, *vectors: Vector) -> torch.Tensor:
    """Dot products between vectors, over all parameters and processes: [n, n], float64."""
    table = gram(_with_small_ones_joined(vectors)).sum(0)
    gradients.sum_over_processes(table)
    return table


def _with_small_ones_joined(vectors: Sequence[Vector]) -> list[Vector]:
    """Biases and norms side by side: a model has many, and each would cost a few calls of its own."""
    columns = list(zip(*vectors, strict=True))
    small: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for i, column in enumerate(columns):
        tensors = [g for g in column if isinstance(g, torch.Tensor) and g.numel() <= SMALL]
        if len(tensors) == len(vectors):
            small.setdefault((tensors[0].device, tensors[0].dtype), []).append(i)
    joined = {i for positions in small.values() for i in positions}
    result: list[Vector] = []
    for vector in vectors:
        kept: Vector = [g for i, g in enumerate(vector) if i not in joined]
        for positions in small.values():
            pieces = [
                g.reshape(-1) for g in (vector[i] for i in positions) if isinstance(g, torch.Tensor)
            ]
            kept.append(torch.cat(pieces))
        result.append(kept)
    return result


@torch.no_grad()
def scale_(vector: Vector, factor: float) -> None:
    """vector <- factor * vector, in place."""
    if factor != 1.0:
        for values in _values(vector):
            values.mul_(factor)


@torch.no_grad()
def add_(total: Vector, vector: Vector, factor: float = 1.0) -> None:
    """total <- total + factor * vector, in place where `total` is dense."""
    for i, (t, v) in enumerate(zip(total, vector, strict=True)):
        if v is None:
            continue
        if isinstance(t, torch.Tensor):
            if isinstance(v, Rows):
                t.index_add_(0, v.index, v.values, alpha=factor)
            else:
                t.add_(v, alpha=factor)
        else:
            copied = copy_of([v])[0]
            assert copied is not None
            total[i] = weighted_sum([(copied, factor)] + ([] if t is None else [(t, 1.0)]))


@torch.no_grad()
def copy_of(vector: Vector) -> Vector:
    """The same vector in memory of its own."""
    return [replace(g, values=g.values.clone()) if isinstance(g, Rows) else _clone(g) for g in vector]


@torch.no_grad()
def combination(first: Vector, a: float, second: Vector, b: float) -> Vector:
    """a * first + b * second, a new vector."""
    result = copy_of(first)
    scale_(result, a)
    add_(result, second, b)
    return result


@torch.no_grad()
def flip_signs_(vector: Vector, generator: torch.Generator) -> None:
    """Give every coordinate a random sign: the same length, no direction."""
    for values in _values(vector):
        signs = torch.randint(0, 2, values.shape, generator=generator, dtype=torch.int8, device="cpu")
        values.mul_(signs.to(values.device, values.dtype).mul_(2).sub_(1))


def none_like(parameters: Sequence[torch.Tensor]) -> Vector:
    """A vector that reaches nothing."""
    return [None] * len(parameters)


def _values(vector: Vector) -> list[torch.Tensor]:
    return [g.values if isinstance(g, Rows) else g for g in vector if g is not None]


def _clone(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return None if tensor is None else tensor.clone()
