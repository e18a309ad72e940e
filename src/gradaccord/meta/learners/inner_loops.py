"""The two inner loops: one pure, over all tasks of a batch at once; one in place, on one task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar

import torch

from gradaccord.meta.episodes.task_batch import Task
from gradaccord.meta.network.functional import FunctionalModel
from gradaccord.meta.network.general import Params

Batch = TypeVar("Batch")
Weights: TypeAlias = list[torch.Tensor]
AtStep: TypeAlias = Callable[[int], dict[str, torch.Tensor]]


def unrolled(
    model: FunctionalModel,
    names: Sequence[str],
    tasks: Sequence[Task],
    steps: int,
    *,
    at_step: AtStep,
    update: Callable[[list[Weights], list[Weights], int], list[Weights]],
    create_graph: bool,
) -> Iterator[list[Params]]:
    """All parameters of every task after 1, 2, ... steps, as functions of the model's own.

    names: of the weights that move. at_step: all parameters that step k (from 0) starts from.
    update: new weights from the weights and support gradients of all tasks. create_graph: keep the
    gradients differentiable, for second order.
    """
    weights = [model.start(names) for _ in tasks]
    for step in range(steps):
        fixed = [at_step(step) for _ in tasks]
        gradients = [
            model.gradient(
                params | dict(zip(names, own, strict=True)),
                names,
                task.support,
                task.support_labels,
                create_graph,
            )
            for params, own, task in zip(fixed, weights, tasks, strict=True)
        ]
        weights = update(weights, gradients, step)
        yield [p | dict(zip(names, own, strict=True)) for p, own in zip(fixed, weights, strict=True)]


def in_place(
    model: FunctionalModel,
    names: Sequence[str],
    batches: Iterable[Batch],
    *,
    at_step: AtStep,
    gradient: Callable[[Params, Batch], Weights],
    update_: Callable[[Weights, Weights, int], None],
) -> Iterator[Params]:
    """All parameters of one task after 0, 1, ... steps: a copy, changed in place, without a graph.

    batches: what each step learns from. gradient: at these parameters on a batch. update_: moves the
    weights. Others as in `unrolled`.
    """
    weights = [weight.detach().clone().requires_grad_() for weight in model.start(names)]
    moving = dict(zip(names, weights, strict=True))
    yield at_step(0) | moving
    for step, batch in enumerate(batches):
        params = at_step(step) | moving
        direction = gradient(params, batch)
        with torch.no_grad():
            update_(weights, direction, step)
        yield params


def last(trajectory: Iterator[Params]) -> Params:
    """The parameters at the end of a trajectory."""
    params: Params = {}
    for params in trajectory:  # noqa: B007
        pass
    return params


def descended(
    weights: Weights, direction: Weights, rates: float | list[torch.Tensor]
) -> list[torch.Tensor]:
    """theta - alpha d, differentiable."""
    if isinstance(rates, float):
        return [torch.sub(w, d, alpha=rates) for w, d in zip(weights, direction, strict=True)]
    moves = zip(weights, rates, direction, strict=True)
    return [torch.addcmul(w, rate, d, value=-1) for w, rate, d in moves]


def descend_(weights: Weights, direction: Weights, rates: float | list[torch.Tensor]) -> None:
    """theta - alpha d, in place."""
    if isinstance(rates, float):
        torch._foreach_add_(weights, direction, alpha=-rates)
    else:
        torch._foreach_addcmul_(weights, rates, direction, value=-1)
