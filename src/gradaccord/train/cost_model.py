"""What a step takes, keeps and sends, by method: a small model of a few measured quantities.

    seconds = c * sum_batches (a_t + b_t * tokens)  +  READS * T * P * tau  +  optimiser

c: batch gradients that the method computes on a batch (`methods.registry`); a_t, b_t: a line through
the times of task t's gradient on its smallest and largest batch; T: tasks whose gradients are kept
apart; P: weights that they share; tau: seconds to read a number from memory. The line and tau are
measured where the run will be, `READS` was fitted (`benchmarks/growth.py`), with a term of T^2 that
came out as zero: every gradient is read once for all its dot products.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

READS = 14.3  # fitted: numbers read for each weight and task
PROBE = 2**22  # numbers that are read to time the memory


@dataclass(frozen=True)
class Line:
    """Seconds of a batch gradient: `fixed`, and `per_token` of the batch."""

    fixed: float
    per_token: float

    @classmethod
    def through(cls, points: Iterable[tuple[int, float]]) -> Line:
        """Through the points (tokens, seconds) with the fewest and the most tokens; it never falls.

        Where it would be below zero, it goes from zero through their mean: two noisy times of similar
        batches tell no more.
        """
        (few, quick), *_, (many, slow) = sorted(points) * 2
        slope = max((slow - quick) / (many - few), 0.0) if many > few else 0.0
        if slope * few > quick:
            return cls(0.0, (quick + slow) / (few + many))
        return cls(quick - slope * few, slope)

    def at(self, tokens: float) -> float:
        """Seconds for this many tokens."""
        return self.fixed + self.per_token * tokens


def seconds_per_number() -> float:
    """tau: how long this machine takes to read a number from memory, the median of five rounds."""
    numbers, times = torch.ones(PROBE), []
    for _ in range(5):
        began = time.perf_counter()
        float(numbers.sum())
        times.append(time.perf_counter() - began)
    return statistics.median(times) / PROBE


def combination_seconds(tasks: int, parameters: int, tau: float) -> float:
    """Seconds of the task gradients' dot products and weighted sum; 0 for a single task."""
    return READS * tasks * parameters * tau if tasks > 1 else 0.0


def step_seconds(
    lines: dict[str, Line], steps: Sequence[Sequence[tuple[str, int]]], cost: float
) -> float:
    """Mean over drawn steps of the time of their gradients. steps: (task, tokens) of each batch."""
    totals = [sum(lines[task].at(tokens) for task, tokens in batches) for batches in steps]
    return cost * statistics.fmean(totals)
