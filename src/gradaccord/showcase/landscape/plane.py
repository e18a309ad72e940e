"""Three tasks on the plane, each with its optimum: losses, gradients and curvature in closed form.

    L_i(phi) = -200 exp(-0.2 |phi - x_i|)

The paper (Lee et al. 2022, 4.1) prints exp(+0.2 |...|), which has a maximum at x_i and no minimum; with
the minus every x_i is the local optimum that the text describes. It is a cusp: |grad L_i| rises to 40
towards x_i, where the subgradient 0 is used. Points are tensors [..., 2] in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

DEPTH, RATE = 200.0, 0.2
TASKS = ("x1", "x2", "x3")
OPTIMA = torch.tensor([[0.0, 10.0], [0.0, 0.0], [10.0, 0.0]], dtype=torch.float64, device="cpu")
STARTS = torch.tensor([[20.0, 5.0], [5.0, 20.0], [15.0, 15.0]], dtype=torch.float64, device="cpu")


def losses(points: torch.Tensor) -> torch.Tensor:
    """The three losses at each point: [..., 2] -> [..., 3]."""
    distance = torch.linalg.vector_norm(points[..., None, :] - OPTIMA, dim=-1)
    return -DEPTH * torch.exp(-RATE * distance)


def gradient(points: torch.Tensor, optima: torch.Tensor) -> torch.Tensor:
    """The gradient of the task with its optimum at `optima`: [..., 2] and [..., 2] -> [..., 2]."""
    away = points - optima
    distance = torch.linalg.vector_norm(away, dim=-1, keepdim=True)
    slope = DEPTH * RATE * torch.exp(-RATE * distance)
    return away * torch.where(distance > 0, slope / distance, 0.0)


def gradients(points: torch.Tensor) -> torch.Tensor:
    """The gradients of all three tasks: [..., 2] -> [..., 3, 2]."""
    return gradient(points[..., None, :], OPTIMA)


def hessian_product(points: torch.Tensor, optima: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """The Hessian of the task with its optimum at `optima`, times a vector: all [..., 2].

    With u the unit vector away from the optimum and r the distance:
    H v = 40 exp(-0.2 r) ((v - (u.v) u) / r - 0.2 (u.v) u); 0 at the optimum itself.
    """
    away = points - optima
    distance = torch.linalg.vector_norm(away, dim=-1, keepdim=True)
    unit = torch.where(distance > 0, away / distance, 0.0)
    along = (unit * vector).sum(-1, keepdim=True) * unit
    curved = (vector - along) / distance - RATE * along
    return torch.where(distance > 0, DEPTH * RATE * torch.exp(-RATE * distance) * curved, 0.0)


def mean_cosine(points: torch.Tensor) -> torch.Tensor:
    """Mean cosine over the pairs of tasks: [..., 2] -> [...], without a task that is at its optimum."""
    directions = nn.functional.normalize(gradients(points), dim=-1, eps=1e-300)
    cosines = directions @ directions.mT
    present = (directions != 0).any(-1)
    pairs = (present[..., :, None] & present[..., None, :]).triu(1)
    return torch.where(pairs, cosines, 0.0).sum((-2, -1)) / pairs.sum((-2, -1))


class Point(nn.Module):
    """A model whose one parameter is phi. Several points in it are independent runs."""

    def __init__(self, start: torch.Tensor) -> None:
        super().__init__()
        self.phi = nn.Parameter(start.clone())

    def loss(self, task: int, shift: float = 0.0, weight: torch.Tensor | float = 1.0) -> torch.Tensor:
        """weight * (L_i + shift), summed over points, for autograd."""
        distance = torch.linalg.vector_norm(self.phi - OPTIMA[task], dim=-1)
        return (weight * (shift - DEPTH * torch.exp(-RATE * distance))).sum()

    def losses(
        self, shift: float = 0.0, weight: torch.Tensor | float = 1.0
    ) -> dict[str, Callable[[], torch.Tensor]]:
        """The losses, as the library's methods take them."""
        return {name: partial(self.loss, i, shift, weight) for i, name in enumerate(TASKS)}
