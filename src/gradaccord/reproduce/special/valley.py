"""The two-task valley of Yu et al. 2020 (`showcase.valley`), one run with the method's class."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import torch

from gradaccord.methods.registry import BASELINE, find_method
from gradaccord.reproduce.records import Point, thinned
from gradaccord.reproduce.special.outcome import SpecialOutcome
from gradaccord.showcase.valley import LAST, SPREAD, TASKS, Valley, start_of


def valley(settings: dict[str, Any], seed: int, *, data: Path | None, folder: Path) -> SpecialOutcome:
    """settings: method (with options), steps, lr, spread of the starts. Seed 0 is the published start.

    Scores: the summed loss, its median over the last tenth of the steps; and the same for each task.
    """
    steps, lr = int(settings.get("steps", 500_000)), float(settings.get("lr", 1e-3))
    named = settings.get("method", BASELINE)
    options = {"name": named} if isinstance(named, str) else dict(named)
    model = Valley(start_of(seed, settings.get("spread", SPREAD)))
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
    return SpecialOutcome(
        test={"valley": scores},
        train_loss=sum(seen[-1]),
        curve=curve,
        steps=steps,
        gradients=2.0 * steps,
    )
