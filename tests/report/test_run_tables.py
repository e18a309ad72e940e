"""The tables of a page: true to the results, p values as scipy has them."""

import dataclasses
import json
import random
import shutil
import statistics

import pytest
from report_support import Page, results_of

from gradaccord.report.data import read_report_data
from gradaccord.report.page import write_report
from gradaccord.report.run_figures import learning
from gradaccord.report.run_tables import course


def average(results, split="test"):
    return statistics.fmean(results[split][t][results["metrics"][t]] for t in results["trained"])


def test_every_table_is_there(page):
    assert page.tables == [
        "leaderboard", "methods", "per-task", "differences", "no-skill", "costs", "worst-mood",
        "worst-share", "data-splits", "data-classes", "data-examples", "commands", "versions",
    ]  # fmt: skip
    for name in page.tables:
        headings, *rows = page.table(name)
        assert rows
        assert all(len(row) == len(headings) for row in rows)


def test_leaderboard_holds_the_runs_scores_the_best_first(page, comparison):
    headings, *rows = page.table("leaderboard")
    column = headings.index("average, %")
    shown = {row[0]: row[column] for row in rows}
    for method in ("sum", "pcgrad", "stl"):
        values = [average(results_of(comparison, method, seed)) for seed in (0, 1)]
        error = statistics.stdev(values) / 2**0.5
        assert shown[method] == f"{statistics.fmean(values):.2f} ± {error:.2f}"
    means = [float(row[column].split()[0]) for row in rows]
    assert means == sorted(means, reverse=True)


def test_the_leaderboard_has_verdicts_and_processor_time(page):
    headings, *rows = page.table("leaderboard")
    assert "processor" in headings
    assert not {"time", "clock, s"} & set(headings)
    verdicts = {row[0]: row[headings.index("verdict")] for row in rows}
    assert verdicts == {"sum": "baseline", "pcgrad": "no test", "stl": "no test"}  # two seeds


def test_scores_that_are_no_skill_are_counted_by_method_and_task(page, comparison):
    headings, *rows = page.table("no-skill")
    for row in rows:
        for task, shown in zip(headings[1:], row[1:], strict=True):
            results = [results_of(comparison, row[0], seed)["references"][task] for seed in (0, 1)]
            count = sum(bool(own["mark"]) for own in results)
            assert shown == (f"{count} of 2" if count else "–")


def test_a_single_run_with_few_evaluations_has_a_table_of_them(comparison):
    folder = comparison / "pcgrad" / "seed-0"
    results = results_of(comparison, "pcgrad", 0)
    data = read_report_data(folder)
    few = dataclasses.replace(data.runs[0], evaluations=data.runs[0].evaluations[:2])
    short = dataclasses.replace(data, methods={"pcgrad": [few]})
    table = course(short)
    assert len(table.headings) == 3
    by_task = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    first, second = (record["scores"]["mood"]["accuracy"] for record in results["evaluations"][:2])
    assert by_task["mood"] == [f"{first:.2f}", f"{second:.2f}"]
    assert [figure.id for figure in learning(short)] == ["train-loss"]


def test_tasks_stand_beside_chance_and_majority_and_marked_scores_have_a_star(page, comparison):
    headings, *rows = page.table("per-task")
    found = {row[0]: dict(zip(headings, row, strict=True)) for row in rows}
    known = results_of(comparison, "sum", 0)["references"]["mood"]
    assert known["split"] == "test"
    for what in ("chance", "majority"):
        assert found[what]["mood (accuracy)"] == f"{known[what]:.2f}"
    for method in ("sum", "pcgrad", "stl"):
        marks = [results_of(comparison, method, s)["references"]["mood"]["mark"] for s in (0, 1)]
        assert found[method]["mood (accuracy)"].endswith(" *") == any(marks)
    assert any(row["mood (accuracy)"].endswith(" *") for row in found.values())


def test_two_seeds_have_differences_and_no_p_value(page, comparison):
    _, *rows = page.table("differences")
    found = {(row[0], row[1]): row for row in rows}
    assert set(found) == {(m, t) for m in ("pcgrad", "stl") for t in ("average", "mood", "share")}
    for method in ("pcgrad", "stl"):
        ours = [results_of(comparison, method, seed)["test"]["share"]["pearson"] for seed in (0, 1)]
        theirs = [results_of(comparison, "sum", seed)["test"]["share"]["pearson"] for seed in (0, 1)]
        row = found[method, "share"]
        assert float(row[2].split()[0]) == pytest.approx(
            statistics.fmean(ours) - statistics.fmean(theirs), abs=0.006
        )
        assert row[3:6] == ["–"] * 3
    assert found["pcgrad", "mood"][6] == "sum"  # its control
    assert found["stl", "mood"][6:] == ["–"] * 5
    _, *leaders = page.table("leaderboard")
    assert [row[4] for row in leaders if row[0] == "pcgrad"] == ["no test"]
    assert "No p value can be given" in page.root.text


def test_p_values_of_the_page_are_scipy_s_with_holm_s_correction_beside_them(copied):
    """Four seeds; four tests of tasks and two of averages: pcgrad's control is the baseline."""
    from scipy.stats import ttest_rel

    draw = random.Random(0)
    (copied / "comparison.json").unlink()
    for method in ("sum", "pcgrad", "stl"):
        for seed in range(4):
            folder = copied / method / f"seed-{seed}"
            if seed > 1:
                shutil.copytree(copied / method / "seed-0", folder)
                for name in ("wanted.yaml", "config.yaml"):
                    if (folder / name).exists():
                        text = (folder / name).read_text()
                        (folder / name).write_text(text.replace("seed: 0", f"seed: {seed}"))
            results = json.loads((folder / "results.json").read_text()) | {"seed": seed}
            for task, metric in (("mood", "accuracy"), ("share", "pearson")):
                shift = 3 * (method == "pcgrad") + 0.7 * (method == "stl")
                results["test"][task][metric] = 50 + shift + 2 * draw.random()
            (folder / "results.json").write_text(json.dumps(results))
    page = Page.of(write_report(copied).read_text(encoding="utf-8"))

    def scores(method, task):
        tests = [results_of(copied, method, seed)["test"] for seed in range(4)]
        both = [(test["mood"]["accuracy"], test["share"]["pearson"]) for test in tests]
        return [{"mood": m, "share": s, "average": (m + s) / 2}[task] for m, s in both]

    raw = {
        (m, t): ttest_rel(scores(m, t), scores("sum", t)).pvalue
        for m in ("pcgrad", "stl")
        for t in ("average", "mood", "share")
    }
    assert sum(0.001 < p < 0.5 for p in raw.values()) >= 3
    _, *rows = page.table("differences")
    for row in rows:
        family = [k for k in raw if (k[1] == "average") == (row[1] == "average")]
        order = sorted(family, key=raw.__getitem__)
        place = order.index((row[0], row[1]))
        holm = min(max(raw[k] * (len(order) - i) for i, k in enumerate(order[: place + 1])), 1)
        for shown, expected in ((row[3], raw[row[0], row[1]]), (row[4], holm)):
            if expected < 0.001:
                assert shown == "< 0.001"
            else:
                assert float(shown) == pytest.approx(expected, abs=0.0051)
        assert row[7:] == (row[2:6] if row[0] == "pcgrad" else ["–"] * 4)
        assert float(row[5]) > 0
    _, *leaders = page.table("leaderboard")
    (pcgrad,) = [row for row in leaders if row[0] == "pcgrad"]
    interval = ttest_rel(scores("pcgrad", "average"), scores("sum", "average")).confidence_interval()
    mean, half = (interval.high + interval.low) / 2, (interval.high - interval.low) / 2
    assert pcgrad[2] == pcgrad[3] == f"{mean:+.2f} ± {half:.2f}"
    assert pcgrad[4] == "better"
    assert "Clearly better than both sum and its own control: pcgrad" in page.root.text
