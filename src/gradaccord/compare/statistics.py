"""Means with standard errors over seeds, and paired differences with p values, raw and corrected."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cache
from itertools import takewhile
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

LEVEL = 0.05  # of false alarms, for all tests of a family together
POWER = 0.8  # the share of tests that detect an effect of size `smallest_effect`
PAIRS = 3  # of fewer, a t-test has next to no power, and two equal differences look certain
EQUAL = 1e-9  # of the scores: differences that vary by less are equal, and have no p value

Key = TypeVar("Key", bound=Hashable)


def _null_is_nan(value: Any) -> Any:
    return math.nan if value is None else value


def _nan_is_null(value: float) -> float | None:
    return value if math.isfinite(value) else None


# NaN where it is unknown, which JSON writes as null.
Number = Annotated[float, BeforeValidator(_null_is_nan), PlainSerializer(_nan_is_null)]


class Mean(BaseModel):
    """A mean over seeds; NaN without any, and the standard error is NaN for a single one."""

    model_config = ConfigDict(frozen=True)

    mean: Number
    error: Number
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Mean:
        """The mean of the numbers that are finite."""
        known = [value for value in values if math.isfinite(value)]
        if not known:
            return Mean(mean=math.nan, error=math.nan, count=0)
        error = statistics.stdev(known) / math.sqrt(len(known)) if len(known) > 1 else math.nan
        return Mean(mean=statistics.fmean(known), error=error, count=len(known))

    def text(self, digits: int = 2) -> str:
        """The mean ± its error, or a dash."""
        if not self.count:
            return "–"
        error = "" if math.isnan(self.error) else f" ± {self.error:.{digits}f}"
        return f"{self.mean:.{digits}f}{error}"

    def __str__(self) -> str:
        return self.text()


class Difference(Mean):
    """The mean difference between two methods on the same seeds.

    p: of the paired t-test; NaN if there is none, and `no_p` says why.
    p_holm: the same, corrected for all tests of its family (`corrected`); p where it stands alone.
    level: what p had to be below, with the other tests of the family as they are.
    """

    p: Number
    p_holm: Number = math.nan
    level: float = LEVEL
    no_p: str = ""

    @classmethod
    def between(cls, ours: Mapping[int, float], theirs: Mapping[int, float]) -> Difference:
        """Ours minus theirs, seed by seed; only seeds that both have count."""
        pairs = [(ours[seed], theirs[seed]) for seed in sorted(set(ours) & set(theirs))]
        pairs = [pair for pair in pairs if all(map(math.isfinite, pair))]
        differences = [own - other for own, other in pairs]
        no_p = _why_no_p(pairs, differences)
        p = math.nan if no_p else _p_value(differences)
        mean = Mean.of(differences)
        return cls(mean=mean.mean, error=mean.error, count=mean.count, p=p, p_holm=p, no_p=no_p)

    @property
    def clear(self) -> bool:
        """Whether it is unlikely to be chance, at 5 % for all tests of the family together."""
        return self.p_holm < LEVEL

    @property
    def clear_gain(self) -> bool:
        """Whether it is clearly above zero."""
        return self.clear and self.mean > 0

    @property
    def half_interval(self) -> float:
        """Half of its 95 % interval, not corrected for multiple tests; NaN where there is no test."""
        if self.no_p or not math.isfinite(self.error):
            return math.nan
        from scipy.stats import t

        return float(t.ppf(1 - LEVEL / 2, self.count - 1) * self.error)

    @property
    def with_interval(self) -> str:
        """The mean ± half of its 95 % interval, or a dash."""
        if not self.count:
            return "–"
        half = self.half_interval
        return f"{self.mean:+.2f}" + (f" ± {half:.2f}" if math.isfinite(half) else "")

    @property
    def smallest_effect(self) -> float:
        """The true difference that such a test finds in `POWER` of all cases, at its `level`.

        In the unit of the scores, if differences vary between seeds as much as these do; NaN without
        a test. It says how much a test that found nothing can rule out.
        """
        if self.no_p or not math.isfinite(self.error):
            return math.nan
        return smallest_shift(self.count, self.level) * self.error

    @property
    def p_text(self) -> str:
        """The p value with the corrected one, or why there is none; what an unclear test can detect."""
        if self.no_p:
            return f"no p: {self.no_p}"
        known = (("p", self.p), ("Holm", self.p_holm))
        parts = [f"{name} {short_p(p)}" for name, p in known if not math.isnan(p)]
        if self.p_holm >= LEVEL:
            parts.append(f"could detect {self.smallest_effect:.2f}")
        return ", ".join(parts)

    def __str__(self) -> str:
        if not self.count:
            return "–"
        return f"{self.mean:+.2f}" + (f" ({self.p_text})" if self.p_text else "")


def corrected(family: Mapping[Key, Difference]) -> dict[Key, Difference]:
    """The same differences, their p values corrected for one another, each with its level."""
    ps = [difference.p for difference in family.values()]
    found = zip(family.items(), holm(ps), holm_levels(ps), strict=True)
    return {
        key: difference.model_copy(update={"p_holm": value, "level": level})
        for (key, difference), value, level in found
    }


def holm(ps: Sequence[float]) -> list[float]:
    """p values corrected for multiple tests (Holm 1979); NaN is no test, and stays NaN.

    The k-th smallest of m is multiplied by m - k + 1, and none is less than the one before it: where
    corrected values below 0.05 are called real, the chance of even one false call is 5 % at most.
    """
    order = sorted((i for i, p in enumerate(ps) if not math.isnan(p)), key=lambda i: ps[i])
    found, most = [math.nan] * len(ps), 0.0
    for place, i in enumerate(order):
        most = max(most, min(ps[i] * (len(order) - place), 1.0))
        found[i] = most
    return found


def holm_levels(ps: Sequence[float]) -> list[float]:
    """What each p value had to be below to be called real by Holm, the others as they are.

    Of m tests with k of the others real, whatever this one is: `LEVEL` / (m - k).
    """
    known = [i for i, p in enumerate(ps) if not math.isnan(p)]
    found = [LEVEL] * len(ps)
    for i in known:
        others = sorted(ps[j] for j in known if j != i)
        passed = takewhile(
            lambda ranked: ranked[1] < LEVEL / (len(known) - ranked[0]), enumerate(others)
        )
        found[i] = LEVEL / (len(known) - sum(1 for _ in passed))
    return found


@cache
def smallest_shift(count: int, level: float) -> float:
    """The shift, in standard errors, that a two-sided t-test of `count` numbers finds with `POWER`.

    Its statistic follows Student's t with this noncentrality; that the test calls the wrong sign is too
    rare to count.
    """
    from scipy.special import nctdtrinc
    from scipy.stats import t

    return float(nctdtrinc(count - 1, 1 - POWER, t.isf(level / 2, count - 1)))


def short_p(p: float) -> str:
    """A p value with as many digits as mean something."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def _why_no_p(pairs: Sequence[tuple[float, float]], differences: Sequence[float]) -> str:
    """Why a t-test means nothing here; empty where it does."""
    if len(pairs) < PAIRS:
        return f"{len(pairs)} pair{'' if len(pairs) == 1 else 's'}"
    size = max(abs(score) for pair in pairs for score in pair)
    return "equal differences" if statistics.stdev(differences) <= EQUAL * size else ""


def _p_value(differences: Sequence[float]) -> float:
    """Two-sided paired t-test."""
    from scipy.stats import t

    error = statistics.stdev(differences) / math.sqrt(len(differences))
    return float(2 * t.sf(abs(statistics.fmean(differences) / error), len(differences) - 1))
