"""An arm and its control at equal training loss, which the one that trained further has passed.

Less training also forgets less and moves less, so that probes at the end of two runs say little if one
has learned its training data less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from gradaccord.compare.comparison import AVERAGE
from gradaccord.compare.statistics import Difference
from gradaccord.reproduce.entry import Design
from gradaccord.reproduce.grid import Grid
from gradaccord.reproduce.records import TRAIN_LOSS, Point, RunRecord

FEWEST = 3  # moments of a run from which its way can be followed
NOTE = (
    "Means on dev and probes, paired by seed, with 95 % intervals. Of each pair the run with the "
    "higher last training loss is taken at its end; the other where its training loss passed that "
    "value, interpolated between evaluations. Exploratory."
)


def at_equal_loss(ours: RunRecord, theirs: RunRecord, metric: str) -> tuple[float, float] | None:
    """Both values at the higher of the last training losses; None where one was never there."""
    ends = [record.curve[-1].value(TRAIN_LOSS) for record in (ours, theirs) if record.curve]
    if len(ends) < 2 or not all(map(math.isfinite, ends)):
        return None
    values = [_value_at(record.curve, max(ends), metric) for record in (ours, theirs)]
    return (values[0], values[1]) if all(map(math.isfinite, values)) else None


def _value_at(curve: Sequence[Point], loss: float, metric: str) -> float:
    """The value when the training loss last came down to this one; NaN if it began below."""
    if curve[-1].value(TRAIN_LOSS) == loss:
        return curve[-1].value(metric)
    found = math.nan
    for before, after in pairwise(curve):
        high, low = before.value(TRAIN_LOSS), after.value(TRAIN_LOSS)
        if high >= loss > low:
            share = (high - loss) / (high - low)
            found = before.value(metric) + share * (after.value(metric) - before.value(metric))
    return found


def difference_at_equal_loss(
    records: Sequence[RunRecord], arm: str, against: str, metric: str, variant: str, budget: str
) -> Difference:
    """Of all seeds that both arms have and in which both were at that loss."""
    own = {
        (record.arm, record.seed): record
        for record in records
        if (record.variant, record.budget) == (variant, budget) and len(record.curve) >= FEWEST
    }
    pairs = {
        seed: at_equal_loss(record, own[against, seed], metric)
        for (name, seed), record in own.items()
        if name == arm and (against, seed) in own
    }
    found = {seed: pair for seed, pair in pairs.items() if pair is not None}
    return Difference.between(
        {seed: pair[0] for seed, pair in found.items()}, {seed: pair[1] for seed, pair in found.items()}
    )


def equal_loss_tables(design: Design, records: Sequence[RunRecord]) -> Iterator[Grid]:
    """For each variant: every arm with a control, on the average and the probes that were measured."""
    for variant in design.variants:
        for budget in design.budgets:
            own = [one for one in records if (one.variant, one.budget) == (variant, budget)]
            metrics = _metrics(own)
            rows = []
            for arm, against in design.controls.items():
                cells = [
                    difference_at_equal_loss(own, arm, against, metric, variant, budget)
                    for metric in metrics
                ]
                if any(cell.count for cell in cells):
                    pairs = max(cell.count for cell in cells)
                    rows.append((arm, against, str(pairs), *(cell.with_interval for cell in cells)))
            if rows:
                where = f"{variant}, " if len(design.variants) > 1 else ""
                headings = ("difference of", "to", "pairs", *metrics)
                yield Grid(f"{where}at equal training loss", headings, tuple(rows), NOTE)


def _metrics(records: Sequence[RunRecord]) -> list[str]:
    """The average, cosine and distance, and the mean of all texts of each group: seen, unseen."""
    names = [name for record in records for point in record.curve for name in point.values]
    groups = {name.partition("-")[0] + "-*" for name in names if name.startswith("masked_lm.")}
    kept = [name for name in (AVERAGE, "cosine", "distance") if name in names]
    return [*kept, *sorted(groups)] if len(kept) > 1 or groups else []
