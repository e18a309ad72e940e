"""The answer on top of a comparison's page: what was found, what could be found, and one picture."""

from __future__ import annotations

import math

from gradaccord.compare.comparison import Comparison
from gradaccord.compare.statistics import Difference
from gradaccord.report.charts import Interval, forest
from gradaccord.report.data import ReportData
from gradaccord.report.section import Figure

POWER = 0.8  # "four times in five"


def answer(comparison: Comparison) -> list[str]:
    """What the tests found, and how small a difference they could have found."""
    unseen = [smallest_effect(own) for own in comparison.tests.values()]
    known = sorted(effect for effect in unseen if math.isfinite(effect))
    found = list(comparison.findings)
    if known:
        reach = f"{known[0]:.1f}"
        if f"{known[-1]:.1f}" != reach:
            reach += f" to {known[-1]:.1f}"
        found.append(
            f"With {len(comparison.baseline.seeds)} seeds a test notices a true difference of {reach} "
            "points four times in five; smaller ones may go unnoticed."
        )
    return found


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
        "intervals over seeds, not corrected for being several. Grey: too small for the test to notice "
        "four times in five. Right of zero is better.",
    )


def half_interval(difference: Difference) -> float:
    """Half of the 95 % interval of a mean difference; NaN where there is no test."""
    return _quantiles(difference, 0.975)


def smallest_effect(difference: Difference) -> float:
    """The true difference that a paired t-test at 5 % finds with `POWER`; NaN where there is no test.

    (t_0.975 + t_power) standard errors, with n - 1 degrees of freedom.
    """
    return _quantiles(difference, 0.975, POWER)


def _quantiles(difference: Difference, *shares: float) -> float:
    if difference.no_p or not math.isfinite(difference.error):
        return math.nan
    from scipy.stats import t

    return float(sum(t.ppf(share, difference.count - 1) for share in shares) * difference.error)


def _interval(to: str, difference: Difference) -> Interval:
    return Interval(to, difference.mean, half_interval(difference), smallest_effect(difference))
