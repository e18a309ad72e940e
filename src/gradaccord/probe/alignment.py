"""Gradient dot product and cosine over training, from the report that each step returns anyway."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

import torch

from gradaccord.core.checks import whole_number
from gradaccord.core.report import StepReport

QUANTITIES = ("dot", "cosine", "loss")


@dataclass(frozen=True)
class Curve:
    """A quantity over training: the moving mean at each step that counts."""

    steps: tuple[int, ...]  # numbers of the steps, from 1
    values: tuple[float, ...]
    dropped: int  # points left out as too far from the mean


class AlignmentProbe:
    """Dot product and cosine between the gradients of a step's tasks or batches, smoothed.

        probe = AlignmentProbe()
        for ...:
            probe.update(method.backward(losses))
        probe.curve("cosine").values

    As Kedia et al. 2021 plot it: a moving mean over `window` points, without points further than
    `sigmas` standard deviations from the mean. Mean and deviation are those of the whole run so far: in
    a window of 100 no point can be 10 deviations away from a mean it is part of (9.95 at most). It adds
    no pass over the model and no gradient; it keeps four numbers per step. A step counts if its report
    has two tasks or more and finite gradients were measured. The mean loss is kept too: alignment that
    rises together with the loss is no success.
    """

    def __init__(self, *, window: int = 100, sigmas: float = 10.0) -> None:
        if not sigmas > 0:
            raise ValueError(f"`sigmas` is {sigmas}: it must be positive; inf drops nothing.")
        self.window = whole_number("window", window)
        self.sigmas = float(sigmas)
        self.step = 0  # reports seen
        self.steps: list[int] = []  # those that count
        self.series: dict[str, list[float]] = {name: [] for name in QUANTITIES}
        self._begin()

    def update(self, report: StepReport) -> None:
        """Take in the report of one step."""
        self.step += 1
        if len(report.tasks) < 2 or not report.finite:
            return
        first, second = torch.triu_indices(len(report.tasks), len(report.tasks), 1, device="cpu")
        dot = float(report.gram[first, second].mean())
        if not math.isfinite(dot):  # not measured
            return
        cosine = report.mean_cosine
        self.steps.append(self.step)
        values = (dot, cosine, float(report.losses.mean()))
        for name, value in zip(QUANTITIES, values, strict=True):
            self.series[name].append(value)
            self._running[name].add(value)

    def curve(self, quantity: str = "cosine") -> Curve:
        """The moving mean of "dot", "cosine" or "loss" over the run so far."""
        if quantity not in QUANTITIES:
            raise ValueError(f"`quantity` is {quantity!r}: use {', '.join(map(repr, QUANTITIES))}.")
        kept_steps, means = [], []
        recent: deque[float] = deque(maxlen=self.window)
        running = self._running[quantity]
        for step, value in zip(self.steps, self.series[quantity], strict=True):
            if running.is_near(value, self.sigmas):
                recent.append(value)
                kept_steps.append(step)
                means.append(math.fsum(recent) / len(recent))
        defined = sum(not math.isnan(value) for value in self.series[quantity])
        return Curve(tuple(kept_steps), tuple(means), defined - len(means))

    def to_floats(self) -> dict[str, float]:
        """The moving means as of now, for any logger; NaN where nothing was measured."""
        floats = {}
        for name in QUANTITIES:
            running = self._running[name]
            recent = [v for v in self.series[name][-self.window :] if running.is_near(v, self.sigmas)]
            floats[f"alignment/{name}"] = math.fsum(recent) / len(recent) if recent else math.nan
        return floats

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs to go on with the same curves."""
        return {
            "step": self.step,
            "steps": list(self.steps),
            "series": {name: list(values) for name, values in self.series.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        self.step = int(state["step"])
        self.steps = list(state["steps"])
        self.series = {name: list(state["series"][name]) for name in QUANTITIES}
        self._begin()

    def _begin(self) -> None:
        self._running = {name: _Running() for name in QUANTITIES}
        for name, values in self.series.items():
            for value in values:
                self._running[name].add(value)


class _Running:
    """Mean and standard deviation of the numbers so far (Welford); NaN does not count."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.squares = 0.0  # sum of squared distances from the mean

    def add(self, value: float) -> None:
        if math.isnan(value):
            return
        self.count += 1
        distance = value - self.mean
        self.mean += distance / self.count
        self.squares += distance * (value - self.mean)

    def is_near(self, value: float, sigmas: float) -> bool:
        if math.isnan(value):
            return False
        deviation = math.sqrt(self.squares / self.count)
        # A share of rounding, so that a constant series is near its own mean.
        return abs(value - self.mean) <= sigmas * deviation + 1e-12 * abs(self.mean)
