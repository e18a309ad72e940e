"""A few-shot run (`meta.run`) as one run of an entry: test accuracy, and accuracy over training."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

from gradaccord.compare.comparison import AVERAGE
from gradaccord.data.images.class_splits import load
from gradaccord.meta.results import FewShotResults
from gradaccord.meta.run import Run
from gradaccord.meta.settings import settings_for
from gradaccord.reproduce.records import Point
from gradaccord.reproduce.special.outcome import SpecialOutcome
from gradaccord.runs.exceptions import Interrupted
from gradaccord.runs.files import LOG
from gradaccord.runs.log import records, tail


def fewshot(settings: dict[str, Any], seed: int, *, data: Path | None, folder: Path) -> SpecialOutcome:
    """Train and test. settings: of `FewShotSettings`, and `preset`. A killed run is continued."""
    chosen = settings_for(**settings)
    splits = load(chosen.data, chosen.data_dir or data, size=chosen.size)
    run = Run(chosen, splits, folder, seed)
    if not run.train():
        raise Interrupted
    found = FewShotResults.read(folder) if FewShotResults.exists(folder) else run.test()
    weights = _sharing(folder / LOG)
    curve = [
        Point(
            step=step,
            gradients=step * chosen.tasks,
            seconds=round(at, 2),
            values={AVERAGE: value, **weights.get(step, {})},
        )
        for step, value, _, at in run.history
    ]
    by_step = {f"after_{i}_steps": value for i, value in enumerate(found.curve.by_step)}
    scores = {"accuracy": found.single.value, "interval": found.single.interval, **by_step}
    if found.ensemble is not None:
        scores["ensemble"] = found.ensemble.value
    return SpecialOutcome(
        test={chosen.data: scores},
        chance={chosen.data: {"chance": 100 / chosen.ways}},
        curve=curve,  # all of it: the best validation may be any
        steps=found.iterations,
        gradients=float(found.iterations * chosen.tasks),
        cpu_seconds=run.processor_seconds,
    )


def share(settings: dict[str, Any], folder: Path) -> float:
    """How far a run is, by the last whole line of its log."""
    iterations = settings_for(**settings).iterations or math.inf
    for line in reversed(tail(folder / LOG)):
        with suppress(ValueError, KeyError, TypeError):
            return min(float(json.loads(line)["iteration"]) / iterations, 0.99)
    return 0.0


def _sharing(log: Path) -> dict[int, dict[str, float]]:
    """Iteration -> sigma(m) and sigma(lambda) of each inner step, where gradients were shared."""
    return {
        one["iteration"]: {
            f"{name}.{step}": round(value, 4)
            for name in ("sigma_m", "sigma_lambda")
            for step, value in enumerate(one[name], 1)
        }
        for one in records(log)
        if "sigma_m" in one
    }
