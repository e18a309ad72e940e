"""Training by a weighting of losses, and the same in plain torch with a loss written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from toy import batch, losses_of, trunk

STEPS = 30
TASKS = ("a", "b", "c")


def shared_losses(model: nn.Module, seed: int) -> Callable[[], dict[str, torch.Tensor]]:
    """One batch under all heads, with labels of each task."""
    tokens, labels = batch(seed)

    def losses() -> dict[str, torch.Tensor]:
        features = model.features(tokens)
        return {
            task: (i + 1) * F.cross_entropy(model.heads[task](features), (labels + i) % 3)
            for i, task in enumerate(TASKS)
        }

    return losses


def step_losses(model: nn.Module, step: int, shared: bool) -> Any:
    """Tasks of different scales."""
    if shared:
        return shared_losses(model, step)
    own = losses_of(model, TASKS, seed=step)
    return {task: (lambda f=f, i=i: (i + 1) * f()) for i, (task, f) in enumerate(own.items(), start=0)}


def trained(make: Callable[[nn.Module], Any], shared: bool, steps: int = STEPS) -> list[torch.Tensor]:
    """The weights after steps of SGD by the method."""
    model = trunk()
    method = make(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        method.backward(step_losses(model, step, shared))
        optimizer.step()
        method.after_step()
        optimizer.zero_grad()
    return [p.detach().clone() for p in model.parameters()]


def by_hand(scalar: Callable[[torch.Tensor], torch.Tensor], shared: bool) -> list[torch.Tensor]:
    """The same by autograd through one scalar of the losses [T]."""
    model = trunk()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        given = step_losses(model, step, shared)
        values: Mapping[str, torch.Tensor] = given() if shared else {t: f() for t, f in given.items()}
        optimizer.zero_grad()
        scalar(torch.stack([values[task] for task in TASKS])).backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


def assert_same(found: list[torch.Tensor], expected: list[torch.Tensor], close: float = 1e-11) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=close, atol=close)


def distance(found: list[torch.Tensor], other: list[torch.Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(found, other, strict=True))
