"""The two-task valley of Yu et al. 2020 (PCGrad): narrow, steep, and with gradients that conflict.

    L1 = 20 log max(|0.5 a + tanh b|, 5e-6)
    L2 = 25 log max(|0.5 a - tanh b + 2|, 5e-6)

Each loss has a valley along a curve; the sum's is deepest where both meet. The paper takes Adam, rate
1e-3, 500,000 steps from (a, b) = (0.5, -3), which lies in the first task's valley. Formula and setting
are quoted from memory of its appendix and were not compared with it.

`Valley` is the problem for the methods' classes; `descend` takes many starts and rates at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from gradaccord.methods.combine.pcgrad import pcgrad_weights

FLOOR = 5e-6
START = (0.5, -3.0)
SPREAD = 0.5  # standard deviation of the other starts around it
TASKS = ("first", "second")
DEPTHS = (20.0, 25.0)
LAST = 10  # the last tenth of the steps says where a run ends
SUM, PCGRAD = "sum", "pcgrad"


class Valley(nn.Module):
    """A point (a, b) and the two losses there."""

    def __init__(self, start: tuple[float, float]) -> None:
        super().__init__()
        self.at = nn.Parameter(torch.tensor(start, dtype=torch.float64))

    def first(self) -> torch.Tensor:
        """L1."""
        a, b = self.at
        loss: torch.Tensor = 20 * (0.5 * a + b.tanh()).abs().clamp_min(FLOOR).log()
        return loss

    def second(self) -> torch.Tensor:
        """L2."""
        a, b = self.at
        loss: torch.Tensor = 25 * (0.5 * a - b.tanh() + 2).abs().clamp_min(FLOOR).log()
        return loss


def start_of(seed: int, spread: float = SPREAD) -> tuple[float, float]:
    """Where a run starts; seed 0 is the published start, the others lie around it."""
    draw = torch.Generator().manual_seed(seed)
    moved = torch.randn(2, generator=draw, dtype=torch.float64) * spread
    a, b = START if seed == 0 else (torch.tensor(START, dtype=torch.float64) + moved).tolist()
    return a, b


def losses(points: torch.Tensor) -> torch.Tensor:
    """L1 and L2 at each point: [..., 2] -> [..., 2]."""
    inside, _ = _inside(points)
    return inside.new_tensor(DEPTHS) * inside.abs().clamp_min(FLOOR).log()


def gradients(points: torch.Tensor) -> torch.Tensor:
    """The gradients of L1 and L2 at each point: [..., 2] -> [..., task, 2]."""
    inside, tanh = _inside(points)
    outer = torch.where(inside.abs() >= FLOOR, inside.new_tensor(DEPTHS) / inside, 0.0)
    by_b = outer * (1 - tanh**2)[..., None] * outer.new_tensor([1.0, -1.0])
    return torch.stack([0.5 * outer, by_b], -1)


def descend(method: str, starts: Sequence[int], rates: Sequence[float], steps: int) -> torch.Tensor:
    """The points that `SUM` or `PCGRAD` with Adam goes through: [1 + steps, rates, starts, 2].

    All runs at once, 20 times as fast as one by one. With two tasks PCGrad is deterministic.
    """
    first = torch.tensor([start_of(seed) for seed in starts], dtype=torch.float64, device="cpu")
    at = first.repeat(len(rates), 1, 1)
    rate = at.new_tensor(rates)[:, None, None]
    mean, square = torch.zeros_like(at), torch.zeros_like(at)
    order = torch.tensor([[1], [0]], device="cpu")  # each task's gradient is projected off the other's
    found = [at]
    for step in range(1, steps + 1):
        g = gradients(at)
        if method == PCGRAD:
            g = pcgrad_weights(g @ g.mT, order)[..., None] * g
        total = g.sum(-2)
        mean = torch.lerp(mean, total, 0.1)  # Adam with torch's betas
        square = 0.999 * square + 0.001 * total**2
        length = (square / (1 - 0.999**step)).sqrt() + 1e-8
        at = at - rate / (1 - 0.9**step) * mean / length
        found.append(at)
    return torch.stack(found)


def _inside(points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The arguments of the two logarithms, [..., 2], and tanh b."""
    a, b = points.unbind(-1)
    tanh = b.tanh()
    return torch.stack([0.5 * a + tanh, 0.5 * a - tanh + 2], -1), tanh
