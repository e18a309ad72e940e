"""Means with standard errors over seeds, and paired differences with p values, raw and corrected."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

PAIRS = 3  # below, a t-test has next to no power, and two equal differences look certain
EQUAL = 1e-9  # of the scores: differences that vary by less are equal, and have no p value

Key = TypeVar("Key", bound=Hashable)


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
    """Between two methods on the same seeds.

    p: of the paired t-test; NaN if there is none, and `no_p` says why.
    holm: the same, corrected for all tests of its family (`corrected`); p where it stands alone.
    """

    mean: Mean
    p: float
    no_p: str
    holm: float

    @classmethod
    def between(cls, ours: Mapping[int, float], theirs: Mapping[int, float]) -> Difference:
        """Ours minus theirs, seed by seed; only seeds that both have count."""
        pairs = [(ours[seed], theirs[seed]) for seed in sorted(set(ours) & set(theirs))]
        pairs = [pair for pair in pairs if all(map(math.isfinite, pair))]
        differences = [own - other for own, other in pairs]
        no_p = _why_none(pairs, differences)
        p = math.nan if no_p else _p_value(differences)
        return cls(Mean.of(differences), p, no_p, p)

    @property
    def clear(self) -> bool:
        """Whether it is unlikely to be chance, by 5 % for all tests of the family together."""
        return self.holm < 0.05

    @property
    def told(self) -> str:
        """The p value with the corrected one, or why there is none."""
        return told_p(self.p, self.holm, self.no_p)

    def __str__(self) -> str:
        return f"{self.mean.value:+.2f} ({self.told})" if self.mean.count else "–"


def corrected(family: Mapping[Key, Difference]) -> dict[Key, Difference]:
    """The same differences, their p values corrected for one another."""
    values = holm([difference.p for difference in family.values()])
    return {
        key: replace(difference, holm=value)
        for (key, difference), value in zip(family.items(), values, strict=True)
    }


def holm(ps: Sequence[float]) -> list[float]:
    """p values corrected for being several (Holm 1979); NaN is no test, and stays NaN.

    The k-th smallest of m is multiplied by m - k + 1, and none is less than the one before it: where
    corrected values below 0.05 are called real, even one false call has a chance of 5 % at most.
    """
    order = sorted((i for i, p in enumerate(ps) if not math.isnan(p)), key=lambda i: ps[i])
    found, most = [math.nan] * len(ps), 0.0
    for place, i in enumerate(order):
        most = max(most, min(ps[i] * (len(order) - place), 1.0))
        found[i] = most
    return found


def told_p(p: float | None, corrected: float | None, no_p: str) -> str:
    """In words, the same wherever a difference is shown."""
    if no_p:
        return f"no p: {no_p}"
    known = [
        p is not None and f"p {short_p(p)}",
        corrected is not None and f"Holm {short_p(corrected)}",
    ]
    return ", ".join(one for one in known if one)


def short_p(p: float) -> str:
    """As many digits as say something."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def _why_none(pairs: Sequence[tuple[float, float]], differences: Sequence[float]) -> str:
    """Why a t-test says nothing here; empty where it says something."""
    if len(pairs) < PAIRS:
        return f"{len(pairs)} pair{'' if len(pairs) == 1 else 's'}"
    size = max(abs(score) for pair in pairs for score in pair)
    return "equal differences" if statistics.stdev(differences) <= EQUAL * size else ""


def _p_value(differences: Sequence[float]) -> float:
    """Two-sided paired t-test."""
    from scipy.stats import t

    error = statistics.stdev(differences) / math.sqrt(len(differences))
    return float(2 * t.sf(abs(statistics.fmean(differences) / error), len(differences) - 1))
