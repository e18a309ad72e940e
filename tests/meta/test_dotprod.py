"""DotProd equals the whole Hessian."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from few_shot_toys import (
    Net,
    assert_gradients,
    batch,
    leaves,
    loss,
    of_model,
)
from torch import Tensor

from gradaccord.meta import DotProd, Task
from gradaccord.meta.episodes.minibatches import pairs


def dotprod_by_hand(
    w: dict[str, Tensor], one: Task, two: Task, weight: float, cap: float
) -> dict[str, Tensor]:
    """G1 + G2 - weight H2 G1 with the whole Hessian of the second batch."""
    names, shapes = list(w), [v.shape for v in w.values()]
    sizes = [v.numel() for v in w.values()]

    def of(flat: Tensor) -> dict[str, Tensor]:
        parts = flat.split(sizes)
        return {n: p.view(s) for n, p, s in zip(names, parts, shapes, strict=True)}

    flat = torch.cat([v.detach().reshape(-1) for v in w.values()])

    def value(task: Task) -> Any:
        return lambda x: loss(of(x), task.support, task.support_labels)

    first = torch.autograd.functional.jacobian(value(one), flat)
    second = torch.autograd.functional.jacobian(value(two), flat)
    term = -weight * torch.autograd.functional.hessian(value(two), flat) @ first
    limit = cap * (first + second).norm()
    term = term * min(1.0, float(limit / term.norm()))
    return of(first + second + term)


def part_of(task: Task, places: Tensor) -> Task:
    return Task(task.support[places], task.support_labels[places], task.query, task.query_labels)


@pytest.mark.parametrize("cap", [0.1, float("inf")])
def test_dotprod_outside_equals_the_whole_hessian(cap: float) -> None:
    model, tasks = Net(), batch(tasks=2, shots=4)
    learner = DotProd(model, reading="outer", inner_batch=5, weight=0.2, max_ratio=cap)
    report = learner.backward(tasks)
    w = leaves(model)
    mean = {n: torch.zeros_like(v) for n, v in w.items()}
    for place, task in enumerate(tasks):
        ((a, b),) = pairs(len(task.support), 5, 1, learner._generator(place))
        assert not set(a.tolist()) & set(b.tolist())
        found = dotprod_by_hand(w, part_of(task, a), part_of(task, b), 0.2, cap)
        mean = {n: mean[n] + found[n] / 2 for n in mean}
    assert_gradients(learner, of_model(mean))
    assert report.capped == (1.0 if cap < 1 else 0.0)


def test_dotprod_inside_equals_the_whole_hessian_step_by_step() -> None:
    model, tasks = Net(), batch(tasks=2, shots=4)
    options = {"inner_optimizer": "sgd", "inner_lr": 0.1, "inner_steps": 5, "weight": 0.2}
    learner = DotProd(model, inner_batch=3, max_ratio=0.3, **options)
    report = learner.backward(tasks)
    w = leaves(model)
    mean = {n: torch.zeros_like(v) for n, v in w.items()}
    for place, task in enumerate(tasks):
        theta = {n: v.detach().clone() for n, v in w.items()}
        drawn = list(pairs(len(task.support), 3, 3, learner._generator(place)))
        for number, (a, b) in enumerate(drawn):
            if number < 2:
                found = dotprod_by_hand(theta, part_of(task, a), part_of(task, b), 0.2, 0.3)
            else:  # the fifth mini-batch is alone
                alone = {n: v.clone().requires_grad_() for n, v in theta.items()}
                value = loss(alone, task.support[a], task.support_labels[a])
                found = dict(zip(alone, torch.autograd.grad(value, list(alone.values())), strict=True))
            theta = {n: theta[n] - 0.1 * found[n] for n in theta}
        mean = {n: mean[n] + (w[n].detach() - theta[n]) / 2 for n in mean}
    assert_gradients(learner, of_model(mean))
    assert report.gradients == 2 * (3 + 3 + 1)
