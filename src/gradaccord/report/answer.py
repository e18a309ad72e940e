"""The forest plot on top of a comparison's page: differences, and what tests could detect."""

from __future__ import annotations

import math

from gradaccord.compare.statistics import Difference
from gradaccord.report.charts import Interval, forest
from gradaccord.report.data import ReportData
from gradaccord.report.section import Figure


def forest_plot(data: ReportData) -> Figure | None:
    """Every method's difference to the baseline and to its control, the best method first."""
    comparison = data.comparison
    if comparison is None:
        return None
    usual = data.names[comparison.baseline.method]
    rows = []
    for own in sorted(comparison.methods[1:], key=lambda own: -own.average.mean):
        intervals = [_interval(usual, own.vs_baseline)]
        if own.vs_control is not None and own.control != comparison.baseline.method:
            intervals.append(_interval("control", own.vs_control))
        rows.append((data.label(own), [one for one in intervals if math.isfinite(one.mean)]))
    return Figure(
        "forest",
        f"Difference to {usual} and to the control, points on {comparison.split}",
        forest([row for row in rows if row[1]], "points", "Differences of averages, with intervals."),
        f"● to {usual}, ◆ to the method's own control (left out where that is {usual}); lines: 95 % "
        "intervals over seeds, not corrected for multiple tests. Grey: too small for the test to "
        "detect four times in five. Right of zero is better.",
    )


def _interval(to: str, difference: Difference) -> Interval:
    return Interval(to, difference.mean, difference.half_interval, difference.smallest_effect)
