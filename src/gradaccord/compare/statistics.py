"""Means with standard errors over seeds, and paired differences with their p values."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Mean:
    """A mean over seeds; the standard error is NaN for a single one."""

    value: float
    error: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Of the numbers that are finite."""
        known = [value for value in values if math.isfinite(value)]
        if not known:
            return cls(math.nan, math.nan, 0)
        error = statistics.stdev(known) / math.sqrt(len(known)) if len(known) > 1 else math.nan
        return cls(statistics.fmean(known), error, len(known))

    def __str__(self) -> str:
        if not self.count:
            return "–"
        return f"{self.value:.2f}" + ("" if math.isnan(self.error) else f" ± {self.error:.2f}")


@dataclass(frozen=True)
class Difference:
    """Between two methods on the same seeds. p: of the paired t-test; NaN below two pairs."""

    mean: Mean
    p: float

    @classmethod
    def between(cls, ours: Mapping[int, float], theirs: Mapping[int, float]) -> Difference:
        """Ours minus theirs, seed by seed; only seeds that both have count."""
        seeds = sorted(set(ours) & set(theirs))
        differences = [ours[seed] - theirs[seed] for seed in seeds]
        mean = Mean.of(differences)
        return cls(mean, _p_value(differences))

    @property
    def clear(self) -> bool:
        """Whether it is unlikely to be chance, by the usual 5 %."""
        return self.p < 0.05

    def __str__(self) -> str:
        if not self.mean.count:
            return "–"
        shown = f"{self.mean.value:+.2f}"
        return shown if math.isnan(self.p) else f"{shown} (p {short_p(self.p)})"


def _p_value(differences: Sequence[float]) -> float:
    """Two-sided paired t-test; equal differences throughout are certain, or no difference at all."""
    known = [value for value in differences if math.isfinite(value)]
    if len(known) < 2:
        return math.nan
    spread = statistics.stdev(known)
    if spread == 0:
        return 1.0 if known[0] == 0 else 0.0
    from scipy.stats import t

    statistic = statistics.fmean(known) / (spread / math.sqrt(len(known)))
    return float(2 * t.sf(abs(statistic), len(known) - 1))


def short_p(p: float) -> str:
    """As many digits as say something."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
