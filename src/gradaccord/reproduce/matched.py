"""Compares an arm with its control at equal training loss or score, instead of at the end of both runs.

A run that trains less also forgets less and moves less, so that probes at the end of two runs say
little if one has learned its training data less. The loss of a trajectory method is that of its inner
steps, lower than at the outer weights, which are scored: so the score on dev is matched, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise, product

from gradaccord.compare.comparison import AVERAGE
from gradaccord.compare.statistics import Difference
from gradaccord.reproduce.entry import Design
from gradaccord.reproduce.grid import Grid
from gradaccord.reproduce.records import TRAIN_LOSS, Point, RunRecord

FEWEST = 3  # evaluations that a run needs to be interpolated
MATCHED = {TRAIN_LOSS: "training loss", AVERAGE: "score on dev"}
NOTE = (
    "Means on dev and probes, paired by seed, with 95 % intervals. Of each pair the run with the "
    "{worse} last {matched} is taken at its end; the other where its {matched} passed that value, "
    "interpolated between evaluations. {caveat}Exploratory."
)
INNER = (
    "The training loss of a trajectory method is that of its inner steps, lower than at the outer "
    "weights, which are scored. "
)


def at_equal(ours: RunRecord, theirs: RunRecord, metric: str, by: str) -> tuple[float, float] | None:
    """Both values where `by` is the worse of the runs' last ones; None if one run never passed it."""
    ends = [record.curve[-1].value(by) for record in (ours, theirs) if record.curve]
    if len(ends) < 2 or not all(map(math.isfinite, ends)):
        return None
    level = max(ends) if by == TRAIN_LOSS else min(ends)
    values = [_value_at(record.curve, level, metric, by) for record in (ours, theirs)]
    return (values[0], values[1]) if all(map(math.isfinite, values)) else None


def _value_at(curve: Sequence[Point], level: float, metric: str, by: str) -> float:
    """The value when `by` last passed a level on its way to better; NaN if it began beyond it."""
    if curve[-1].value(by) == level:
        return curve[-1].value(metric)
    sign = -1.0 if by == TRAIN_LOSS else 1.0
    found = math.nan
    for before, after in pairwise(curve):
        low, high = sign * before.value(by), sign * after.value(by)
        if low <= sign * level < high:
            share = (sign * level - low) / (high - low)
            found = before.value(metric) + share * (after.value(metric) - before.value(metric))
    return found


def difference_at_equal(
    records: Sequence[RunRecord],
    arm: str,
    against: str,
    metric: str,
    by: str,
    variant: str,
    budget: str,
) -> Difference:
    """Over the seeds that both arms have and in which both passed the same loss or score."""
    own = {
        (record.arm, record.seed): record
        for record in records
        if (record.variant, record.budget) == (variant, budget) and len(record.curve) >= FEWEST
    }
    pairs = {
        seed: at_equal(record, own[against, seed], metric, by)
        for (name, seed), record in own.items()
        if name == arm and (against, seed) in own
    }
    found = {seed: pair for seed, pair in pairs.items() if pair is not None}
    return Difference.between(
        {seed: pair[0] for seed, pair in found.items()}, {seed: pair[1] for seed, pair in found.items()}
    )


def equal_loss_tables(design: Design, records: Sequence[RunRecord]) -> Iterator[Grid]:
    """For each variant: every arm with a control, on the average and the probes that were measured."""
    for variant, budget, by in product(design.variants, design.budgets, MATCHED):
        own = [one for one in records if (one.variant, one.budget) == (variant, budget)]
        metrics = [metric for metric in _metrics(own) if metric != by]
        rows = []
        for arm, against in design.controls.items():
            cells = [
                difference_at_equal(own, arm, against, metric, by, variant, budget)
                for metric in metrics
            ]
            if any(cell.count for cell in cells):
                pairs = max(cell.count for cell in cells)
                rows.append((arm, against, str(pairs), *(cell.with_interval for cell in cells)))
        if rows:
            where = f"{variant}, " if len(design.variants) > 1 else ""
            headings = ("difference of", "to", "pairs", *metrics)
            loss = by == TRAIN_LOSS
            note = NOTE.format(
                worse="higher" if loss else "lower", matched=MATCHED[by], caveat=INNER if loss else ""
            )
            yield Grid(f"{where}at equal {MATCHED[by]}", headings, tuple(rows), note)


def _metrics(records: Sequence[RunRecord]) -> list[str]:
    """The average, cosine and distance, and the mean of all texts of each group: seen, unseen."""
    names = [name for record in records for point in record.curve for name in point.values]
    groups = {name.partition("-")[0] + "-*" for name in names if name.startswith("masked_lm.")}
    kept = [name for name in (AVERAGE, "cosine", "distance") if name in names]
    return [*kept, *sorted(groups)] if len(kept) > 1 or groups else []
