"""The picture under the finding."""

import re
from pathlib import Path

from made_results import compared

from gradaccord.report.answer import forest_plot
from gradaccord.report.data import ReportData


def test_every_method_is_compared_with_the_baseline_and_with_its_own_control():
    scores = {"sum": [60, 61, 62], "pcgrad": [61, 61.5, 62], "paired_sum": [60.5, 62, 62.5]}
    comparison = compared({**scores, "dotprod": [64, 65, 66.5]})
    figure = forest_plot(ReportData(Path(), {}, comparison))
    (said,) = re.findall(r'aria-label="([^"]*)"', figure.svg)
    best, *others = said.removeprefix("Differences of averages, with intervals. ").split("; ")
    assert re.fullmatch(r"dotprod to sum: \+4\.17 points, 95 % interval \+\S+ to \+\S+", best)
    assert [one.split(":")[0] for one in others] == [
        "dotprod to control", "paired sum to sum", "pcgrad to sum",
    ]  # fmt: skip
    for own in comparison.methods[1:]:
        smallest = f"{own.vs_baseline.smallest_effect:.2f}"
        assert f"Differences below {smallest} are hard to detect" in figure.svg


def test_a_single_run_has_none():
    assert forest_plot(ReportData(Path(), {})) is None
