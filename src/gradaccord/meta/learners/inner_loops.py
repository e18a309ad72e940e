"""The two inner loops: one pure, over all tasks of a batch at once; one in place, on one task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias, TypeVar

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from gradaccord.core.replay import RandomState
from gradaccord.meta.episodes.task_batch import Task, TaskBatch
from gradaccord.meta.network.functional import FunctionalModel
from gradaccord.meta.network.general import Params

Batch = TypeVar("Batch")
Weights: TypeAlias = list[torch.Tensor]
AtStep: TypeAlias = Callable[[int], dict[str, torch.Tensor]]


def unrolled(
    model: FunctionalModel,
    names: Sequence[str],
    tasks: Sequence[Task | TaskBatch],
    steps: int,
    *,
    at_step: AtStep,
    update: Callable[[list[Weights], list[Weights], int], list[Weights]],
    create_graph: bool,
    recompute: bool = False,
) -> Iterator[list[Params]]:
    """All parameters of every task after 1, 2, ... steps, as functions of the model's own.

    names: of the weights that move. at_step: all parameters that step k (from 0) starts from.
    update: new weights from the weights and support gradients of all tasks. create_graph: keep the
    gradients differentiable, for second order. recompute: keep none of their graphs, and compute each
    again when the meta-gradient comes to it.
    """

    def gradient(params: Params, task: Task | TaskBatch) -> Weights:
        if not (recompute and create_graph):
            return model.gradient(params, names, task.support, task.support_labels, create_graph)
        found = RecomputedGradient.apply(model, names, task, list(params), *params.values())  # type: ignore[no-untyped-call]
        return list(found)

    weights = [model.start(names, task.support) for task in tasks]
    for step in range(steps):
        fixed = [at_step(step) for _ in tasks]
        gradients = [
            gradient(params | dict(zip(names, own, strict=True)), task)
            for params, own, task in zip(fixed, weights, tasks, strict=True)
        ]
        weights = update(weights, gradients, step)
        yield [p | dict(zip(names, own, strict=True)) for p, own in zip(fixed, weights, strict=True)]


class RecomputedGradient(torch.autograd.Function):
    """A support gradient without its graph, which the backward pass builds again, for this step alone.

    Dropout draws the same masks both times.
    """

    @staticmethod
    def forward(
        ctx: Any,
        model: FunctionalModel,
        names: Sequence[str],
        task: Task | TaskBatch,
        keys: list[str],
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        """The gradient with respect to the parameters of these names. keys: names of the tensors."""
        ctx.model, ctx.names, ctx.task, ctx.keys = model, names, task, keys
        ctx.random = RandomState.capture(tensors)
        ctx.needed = [tensor.requires_grad for tensor in tensors]
        # Running statistics move in the pass: the second one must not move them again.
        ctx.save_for_backward(
            *(t if t.requires_grad or isinstance(t, nn.Parameter) else t.clone() for t in tensors)
        )
        leaves = [t.detach().requires_grad_() if t.requires_grad else t for t in tensors]
        params = dict(zip(keys, leaves, strict=True))
        return tuple(model.gradient(params, names, task.support, task.support_labels))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """The Hessian of the support loss times what comes from the later steps."""
        leaves = [
            t.detach().requires_grad_() if n else t
            for t, n in zip(ctx.saved_tensors, ctx.needed, strict=True)
        ]
        params = dict(zip(ctx.keys, leaves, strict=True))
        task = ctx.task
        with torch.enable_grad(), ctx.random.replayed():
            found = ctx.model.gradient(params, ctx.names, task.support, task.support_labels, True)
        pairs = [(g, o) for g, o in zip(found, outer, strict=True) if g.requires_grad]
        inputs = [leaf for leaf in leaves if leaf.requires_grad]
        products = iter(
            torch.autograd.grad([g for g, _ in pairs], inputs, [o for _, o in pairs], allow_unused=True)
            if pairs
            else [None] * len(inputs)
        )
        return (None,) * 4 + tuple(next(products) if leaf.requires_grad else None for leaf in leaves)


def in_place(
    names: Sequence[str],
    weights: Weights,
    batches: Iterable[Batch],
    *,
    at_step: AtStep,
    gradient: Callable[[Params, Batch], Weights],
    update_: Callable[[Weights, Weights, int], None],
    graphless: bool = False,
) -> Iterator[Params]:
    """All parameters after 0, 1, ... steps, which change the weights of these names in place; no graph.

    batches: what each step learns from. gradient: at these parameters on a batch. update_: moves the
    weights. graphless: neither of them uses autograd, so that torch may leave out its bookkeeping, a
    fourteenth of the time of a small network. Others as in `unrolled`.
    """
    moving = dict(zip(names, weights, strict=True))
    yield at_step(0) | moving
    for step, batch in enumerate(batches):
        params = at_step(step) | moving
        with torch.inference_mode() if graphless else nullcontext():
            direction = gradient(params, batch)
            with torch.no_grad():
                update_(weights, direction, step)
        yield params


def copied(weights: Weights) -> Weights:
    """Copies to be changed in place."""
    return [weight.detach().clone().requires_grad_() for weight in weights]


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
