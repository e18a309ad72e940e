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
from gradaccord.train.progress import SMOOTHING

Place = tuple[float, float]  # batch gradients, and the score or loss there
FEWEST = 3  # evaluations that a run needs to be interpolated
MATCHED = {TRAIN_LOSS: "training loss", AVERAGE: "score on dev"}
NOTE = (
    "Means on dev and probes, paired by seed, with 95 % intervals. Of each pair the run with the "
    "{worse} last {matched} is taken at its end; the other where its {matched} passed that value, "
    "interpolated between evaluations. {caveat}Exploratory."
)
CAVEATS = {
    TRAIN_LOSS: "The training loss is a running mean over steps, whose lag is taken out, so that ends "
    "are read a little earlier; that of a trajectory method is of its inner steps, lower than at the "
    "outer weights, which are scored. ",
    AVERAGE: "Pairs that meet at a score no better than guessing are left out. ",
}


def at_equal(ours: RunRecord, theirs: RunRecord, metric: str, by: str) -> tuple[float, float] | None:
    """Both values where `by` is the worse of the runs' last ones.

    None if one run never passed it, and at a score that is no better than guessing.
    """
    if not (ours.curve and theirs.curve):
        return None
    courses = _course(ours, by), _course(theirs, by)
    if not all(courses):
        return None
    ends = [course[-1][1] for course in courses]
    level = max(ends) if by == TRAIN_LOSS else min(ends)
    if by == AVERAGE and level <= ours.guess:
        return None
    sign = -1.0 if by == TRAIN_LOSS else 1.0
    values = [
        _value_at(record.curve, _passed(course, level, sign), metric)
        for record, course in zip((ours, theirs), courses, strict=True)
    ]
    return (values[0], values[1]) if all(map(math.isfinite, values)) else None


def _course(record: RunRecord, by: str) -> list[Place]:
    """The score at every evaluation, or a training run's loss without the lag of its running mean.

    After n batches of a task the mean m is old m + (1 - old) L, where old = (1 - `SMOOTHING`)^n and L
    is a mean over the losses of these batches, which on average are `age` batches old.
    """
    found = [(point.gradients, point.value(by)) for point in record.curve]
    found = [(spent, value) for spent, value in found if math.isfinite(value)]
    if by != TRAIN_LOSS or not found:
        return found
    unit, kept = _gradients_for_a_batch_of_each(record), 1 - SMOOTHING
    spent, mean = found[0]  # that mean began with the first loss
    age = kept / SMOOTHING * (1 - kept ** max(spent / unit - 1, 0))
    places = [(spent - age * unit, mean)]
    for (before, mean), (after, now) in pairwise(found):
        batches = (after - before) / unit
        old = kept**batches
        if old < 1:
            age = kept / SMOOTHING - batches * old / (1 - old)
            places.append((after - age * unit, (now - old * mean) / (1 - old)))
    return places


def _gradients_for_a_batch_of_each(record: RunRecord) -> float:
    """What one batch of every task costs; clusters are tasks, too."""
    tasks = record.settings.get("tasks", {})
    count = sum(tasks.get(task, {}).get("clusters") or 1 for task in record.trained)
    each = record.cost.gradients / record.cost.batches if record.cost.batches else 1.0
    return float(max(count, 1) * each)


def _passed(course: Sequence[Place], level: float, sign: float) -> float:
    """Where a course last passed a level on its way to better; NaN if it began beyond it.

    sign: -1 where lower is better.
    """
    where, end = course[-1]
    if end == level:
        return where
    found = math.nan
    for (before, low), (after, high) in pairwise(course):
        if sign * low <= sign * level < sign * high:
            found = before + (level - low) / (high - low) * (after - before)
    return found


def _value_at(curve: Sequence[Point], where: float, metric: str) -> float:
    """The metric after so many batch gradients, interpolated; NaN before the first evaluation."""
    from numpy import interp

    known = [point.gradients for point in curve]
    return float(interp(where, known, [point.value(metric) for point in curve], left=math.nan))


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


def matched_tables(design: Design, records: Sequence[RunRecord]) -> Iterator[Grid]:
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
            worse = "higher" if by == TRAIN_LOSS else "lower"
            note = NOTE.format(worse=worse, matched=MATCHED[by], caveat=CAVEATS[by])
            yield Grid(f"{where}at equal {MATCHED[by]}", headings, tuple(rows), note)


def _metrics(records: Sequence[RunRecord]) -> list[str]:
    """The average, cosine and distance, and the mean of all texts of each group: seen, unseen."""
    names = [name for record in records for point in record.curve for name in point.values]
    groups = {name.partition("-")[0] + "-*" for name in names if name.startswith("masked_lm.")}
    kept = [name for name in (AVERAGE, "cosine", "distance") if name in names]
    return [*kept, *sorted(groups)] if len(kept) > 1 or groups else []
