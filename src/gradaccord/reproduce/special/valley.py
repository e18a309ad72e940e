"""The two-task valley of Yu et al. 2020 (PCGrad): narrow, steep, and with gradients that conflict.

    L1 = 20 log max(|0.5 a + tanh b|, 5e-6)
    L2 = 25 log max(|0.5 a - tanh b + 2|, 5e-6)

Each loss has a valley along a curve; the sum's is deepest where both meet. Adam, rate
1e-3, 500,000 steps from (a, b) = (0.5, -3). Formula and setting are quoted from memory of their
appendix and were not compared with it.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gradaccord.methods.registry import find_method
from gradaccord.reproduce.records import Point, thinned
from gradaccord.reproduce.special.outcome import Outcome

FLOOR = 5e-6
START = (0.5, -3.0)
TASKS = ("first", "second")
LAST = 10  # a tenth of the steps, the last, says where a run ends


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


def valley(settings: dict[str, Any], seed: int, *, data: Path | None, folder: Path) -> Outcome:
    """settings: method (with options), steps, lr, spread of the starts. Seed 0 is the published start.

    Scores: the summed loss, its median over the last tenth of the steps; and the same for each task.
    """
    steps, lr = int(settings.get("steps", 500_000)), float(settings.get("lr", 1e-3))
    named = settings.get("method", "sum")
    options = {"name": named} if isinstance(named, str) else dict(named)
    draw = torch.Generator().manual_seed(seed)
    moved = torch.randn(2, generator=draw, dtype=torch.float64) * settings.get("spread", 0.5)
    a, b = START if seed == 0 else (torch.tensor(START, dtype=torch.float64) + moved).tolist()
    model = Valley((a, b))
    optimizer = torch.optim.Adam(model.parameters(), lr)
    entry = find_method(options.pop("name"))
    method = entry.build(model, optimizer, tasks=TASKS, **options)
    losses = {"first": model.first, "second": model.second}
    seen: list[tuple[float, float]] = []
    for _ in range(steps):
        report = method.backward(losses)
        optimizer.step()
        method.after_step()
        optimizer.zero_grad()
        first, second = report.losses.tolist()
        seen.append((first, second))
    last = seen[-max(1, steps // LAST) :]
    scores = {
        "loss": statistics.median(first + second for first, second in last),
        "first": statistics.median(first for first, _ in last),
        "second": statistics.median(second for _, second in last),
    }
    shown = thinned(list(range(1, steps + 1)))
    curve = [
        Point(step=i, gradients=2 * i, seconds=0, values={"loss": sum(seen[i - 1])}) for i in shown
    ]
    return Outcome(
        test={"valley": scores},
        train_loss=sum(seen[-1]),
        curve=curve,
        steps=steps,
        gradients=2.0 * steps,
    )
