"""Deterministic methods on the plane: few runs, written as a user would."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from gradaccord.core.losses import Losses
from gradaccord.core.method import Method
from gradaccord.methods.combine.gradnorm import GradNorm
from gradaccord.methods.combine.plain import Sum
from gradaccord.methods.regularize.recadam import RecAdam
from gradaccord.showcase.landscape.plane import DEPTH, Point

Iterates = Iterator[torch.Tensor]  # the points after every update, [rates, starts, 1, 2]

RECALL = 1.0  # gamma: under the pull alone, a tenth of the way back in every step
RECALL_ENDS = 4  # after a quarter of the steps half of the objective is the tasks' loss


def descend(
    model: Point, losses: Losses, method: Method, optimizer: torch.optim.Optimizer
) -> Iterator[torch.Tensor]:
    """The loop that a user writes, without end: phi after every step."""
    while True:
        method.backward(losses)
        optimizer.step()
        method.after_step()
        optimizer.zero_grad()
        yield model.phi.detach().clone()


def mtl(starts: torch.Tensor, lrs: torch.Tensor) -> Iterates:
    """Multi-task learning: the sum of the gradients.

    Points are independent and SGD is linear, so that a learning rate can be a factor of the loss: all
    rates run at once.
    """
    model = Point(starts.repeat(len(lrs), 1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    losses = model.losses(weight=lrs[:, None])
    for phi in descend(model, losses, Sum(model), optimizer):
        yield phi[:, :, None]


def gradnorm(starts: torch.Tensor, lr: float) -> Iterates:
    """GradNorm with the losses shifted by +200: its rates L / L(0) need positive losses."""
    runs = []
    for start in starts:  # each run has its own task weights
        model = Point(start)
        optimizer = torch.optim.SGD(model.parameters(), lr)
        method = GradNorm(model, alpha=1.5)
        runs.append(descend(model, model.losses(shift=DEPTH), method, optimizer))
    for points in zip(*runs, strict=True):
        yield torch.stack(points)[None, :, None]


def recadam(starts: torch.Tensor, lr: float, steps: int) -> Iterates:
    """RecAdam on the summed loss; it is pulled to the start, in place of pretrained weights."""
    model = Point(starts)
    t0 = max(1.0, steps / RECALL_ENDS)
    optimizer = RecAdam(model.parameters(), lr, gamma=RECALL, k=0.05, t0=t0)
    for phi in descend(model, model.losses(), Sum(model), optimizer):
        yield phi[None, :, None]
