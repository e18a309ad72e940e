"""What a special experiment returns for its record."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import Any, Protocol

from gradaccord.reproduce.records import Point, origin
from gradaccord.runs.results import Cost, Scores
from gradaccord.runs.usage import cpu_seconds, peak_memory


@dataclass
class SpecialOutcome:
    """Scores by task and metric; the first metric of a task is its main one."""

    test: Scores
    trained: list[str] | None = None  # the tasks in the average; default: all
    train_loss: float = float("nan")
    probes: dict[str, float] = field(default_factory=dict)
    curve: list[Point] = field(default_factory=list)
    chance: dict[str, dict[str, float]] = field(default_factory=dict)
    steps: int = 0
    gradients: float = 0.0
    cpu_seconds: float = float("nan")  # if earlier processes did a part; default: this process's


class Experiment(Protocol):
    """What every special experiment is: a function of its settings and a seed."""

    def __call__(
        self, settings: dict[str, Any], seed: int, *, data: Path | None, folder: Path
    ) -> SpecialOutcome:
        """Run it. folder: for checkpoints, if it can be continued."""


def measured(
    experiment: Experiment, settings: dict[str, Any], seed: int, data: Path | None, folder: Path
) -> dict[str, Any]:
    """Run an experiment; returns what its record keeps, with its cost."""
    began, used = time.perf_counter(), cpu_seconds()
    found = experiment(settings, seed, data=data, folder=folder)
    return {
        **origin(folder),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "metrics": {task: next(iter(own)) for task, own in found.test.items()},
        "trained": found.trained or list(found.test),
        "dev": {},
        "test": found.test,
        "chance": found.chance,
        "train_loss": found.train_loss,
        "probes": found.probes,
        "curve": found.curve,
        "cost": Cost(
            seconds=time.perf_counter() - began,
            cpu_seconds=cpu_seconds() - used if isnan(found.cpu_seconds) else found.cpu_seconds,
            steps=found.steps,
            gradients=found.gradients,
            memory_mb=peak_memory(),
        ),
    }
