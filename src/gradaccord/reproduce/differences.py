"""The significance tests of an entry: arms against the baseline and controls, paired by seed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gradaccord.compare.comparison import AVERAGE
from gradaccord.compare.statistics import Difference, corrected
from gradaccord.reproduce.entry import Design, Entry, Size
from gradaccord.reproduce.plan import is_current
from gradaccord.reproduce.records import RunRecord, by_seed, read_records

ALL = "all variants"  # the mean over them, seed by seed


@dataclass(frozen=True)
class Tested:
    """A tested difference between two arms, in the order in which the claim names them."""

    scope: str  # a variant, or `ALL`
    budget: str
    arm: str
    against: str
    metric: str
    lower: bool  # whether lower is better
    primary: bool
    difference: Difference

    @property
    def gain(self) -> float:
        """How much better the arm is."""
        return -self.difference.mean if self.lower else self.difference.mean

    @property
    def half(self) -> float:
        """Half of the 95 % interval; NaN without a test."""
        return self.difference.half_interval

    @property
    def detectable(self) -> float:
        """The smallest true difference that this test detects with 80 % power; NaN without a test."""
        return self.difference.smallest_effect

    @property
    def better(self) -> bool:
        """Whether the arm is clearly better, with p corrected for all tests of the family."""
        return self.difference.clear and self.gain > 0

    @property
    def worse(self) -> bool:
        """Whether it is clearly worse."""
        return self.difference.clear and self.gain < 0


def current_records(entry: Entry, results: Path, size: Size = "small") -> list[RunRecord]:
    """The records that were made with the entry's current settings."""
    design = entry.small if size == "small" else entry.full
    if design is None:
        return []
    return [
        record
        for record in read_records(results, entry.runs, size)
        if record.variant in design.variants
        and record.arm in design.arms
        and is_current(record, design.content(record.variant, record.arm))
    ]


def differences_of(design: Design, records: Sequence[RunRecord]) -> list[Tested]:
    """All tests that have a pair of runs, the primary one first.

    p values are corrected by Holm for all of them together.
    """
    scopes = [*design.variants, *([ALL] if has_mean(design) else [])]
    every = (test for scope in scopes for test in _of_scope(design, scope, records))
    made = [test for test in every if test.difference.count]
    family = corrected({i: test.difference for i, test in enumerate(made)})
    found = [replace(test, difference=family[i]) for i, test in enumerate(made)]
    return sorted(found, key=lambda test: (not test.primary, test.scope != ALL))


def has_mean(design: Design) -> bool:
    """Whether the mean over all variants is of interest: not where the primary test is of one."""
    of_one = design.primary is not None and design.primary.variant is not None
    return len(design.variants) > 1 and not of_one


def primary_scope(design: Design) -> str:
    """The scope of the primary test: its variant, or the mean of all."""
    named = design.primary.variant if design.primary else None
    return named or (ALL if len(design.variants) > 1 else next(iter(design.variants)))


def seeds_of(
    records: Sequence[RunRecord],
    scope: str,
    budget: str,
    arm: str,
    metric: str,
    variants: Sequence[str],
) -> dict[int, float]:
    """Seed -> value of an arm; for all variants only seeds that each of them has."""
    own = [one for one in records if (one.budget, one.arm) == (budget, arm)]
    if scope != ALL:
        return by_seed([one for one in own if one.variant == scope], metric)
    each = [by_seed([one for one in own if one.variant == name], metric) for name in variants]
    common = set.intersection(*(set(values) for values in each))
    return {seed: statistics.fmean(values[seed] for values in each) for seed in sorted(common)}


def _of_scope(design: Design, scope: str, records: Sequence[RunRecord]) -> Iterator[Tested]:
    metric = design.primary.metric if design.primary else AVERAGE
    lower = design.primary is not None and design.primary.better == "lower"
    for budget in design.budgets:
        for arm, against in _pairs(design, budget):
            ours, theirs = (
                seeds_of(records, scope, budget, name, metric, list(design.variants))
                for name in (arm, against)
            )
            if any(
                one.is_bound(metric)
                for one in records
                if (one.budget, one.arm) == (budget, arm) and scope in (ALL, one.variant)
            ):
                ours = {}  # that it took at least so many steps cannot count in the arm's favour
            yield Tested(
                scope, budget, arm, against, metric, lower,
                _is_primary(design, scope, budget, arm, against), Difference.between(ours, theirs),
            )  # fmt: skip


def _is_primary(design: Design, scope: str, budget: str, arm: str, against: str) -> bool:
    chosen = design.primary
    return (
        chosen is not None
        and (arm, against) == (chosen.arm, chosen.against)
        and budget == (chosen.budget or next(iter(design.budgets)))
        and scope == primary_scope(design)
    )


def _pairs(design: Design, budget: str) -> list[tuple[str, str]]:
    """Each arm with what it is compared with; each pair once, the primary test's in its own order."""
    run = [arm for arm in design.arms if arm in design.arms_at(budget)]  # type: ignore[arg-type]
    pairs = []
    if design.primary is not None:
        pairs.append((design.primary.arm, design.primary.against))
    pairs += [(arm, design.baseline) for arm in run if design.baseline is not None]
    pairs += list(design.controls.items())
    once = {frozenset(pair): pair for pair in reversed(pairs)}
    return [
        pair
        for pair in dict.fromkeys(pairs)
        if once[frozenset(pair)] == pair and len(set(pair)) == 2 and set(pair) <= set(run)
    ]


def number(value: float, digits: int = 2, sign: bool = False) -> str:
    """A number, or a dash where there is none."""
    if not math.isfinite(value):
        return "–"
    return f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"
