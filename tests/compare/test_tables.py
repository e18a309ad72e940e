"""The tables of a comparison: what stands in them, and what must not."""

import csv
import io
import math
from pathlib import Path

import numpy as np
import pytest
from made_results import made_results
from rich.console import Console
from scipy.stats import ttest_rel

from gradaccord.compare.comparison import Comparison
from gradaccord.compare.processes import Run
from gradaccord.compare.specs import Spec
from gradaccord.compare.summary import summarise
from gradaccord.compare.tables import terminal, write_tables
from gradaccord.train.config_file import check_config

CONFIG = check_config({"tasks": {"a": "sst"}})


def run(name, seed, score, failure=None):
    """A run with a score on its task, or one that failed."""
    results = None if failure is not None else made_results({"a": score}, seed=seed)
    return Run(Spec.parse(name), seed, Path(), CONFIG, results, failure)


def compared(scores):
    """name -> score of each seed, as percent."""
    return summarise([run(n, seed, s) for n, own in scores.items() for seed, s in enumerate(own)])


def written(summary, folder):
    """Everything that is printed or written, as one text each."""
    console = Console(width=200, record=True, file=io.StringIO())
    for table in terminal(summary, 200):
        console.print(table)
    write_tables(summary, folder)
    texts = {e: (folder / f"comparison.{e}").read_text() for e in ("md", "csv", "json")}
    return {**texts, "terminal": console.export_text(), "findings": " ".join(summary.findings)}


def test_two_seeds_with_equal_differences_print_no_p_value(tmp_path):
    summary = compared({"sum": [70.0, 72.0], "pcgrad": [71.0, 73.0]})
    texts = written(summary, tmp_path)
    for where, text in texts.items():
        assert "0.001" not in text, where
    assert "+1.00 (no p: 2 pairs)" in texts["terminal"]
    assert "+1.00 (no p: 2 pairs)" in texts["md"]
    assert texts["findings"].startswith("No p value can be given")
    with (tmp_path / "comparison.csv").open(newline="") as file:
        (line,) = [r for r in csv.DictReader(file) if (r["method"], r["task"]) == ("pcgrad", "average")]
    assert (line["p to baseline"], line["Holm p to baseline"]) == ("", "")
    assert line["why no p to baseline"] == "2 pairs"


def test_p_values_are_corrected_once_for_every_test_of_the_table(tmp_path):
    """Of two methods and two controls: a method whose control is the baseline is one test, not two."""
    generator = np.random.default_rng(1)
    names = ("sum", "pcgrad", "paired_sum", "dotprod")
    scores = {name: 70 + i + generator.normal(size=5) for i, name in enumerate(names)}
    summary = compared({name: list(own) for name, own in scores.items()})
    tests = [("pcgrad", "sum"), ("paired_sum", "sum"), ("dotprod", "sum"), ("dotprod", "paired_sum")]
    assert summary.tests_with_p == len(tests)
    raw = {pair: ttest_rel(scores[pair[0]], scores[pair[1]]).pvalue for pair in tests}
    order = sorted(tests, key=raw.__getitem__)
    expected = {}
    for place, pair in enumerate(order):
        expected[pair] = min(max(raw[p] * (4 - i) for i, p in enumerate(order[: place + 1])), 1)
    rows = {row.method: row for row in summary.methods}
    for (ours, theirs), value in expected.items():
        shown = rows[ours].vs_baseline if theirs == "sum" else rows[ours].vs_control
        assert shown.p == pytest.approx(raw[ours, theirs], rel=1e-9)
        assert shown.p_holm == pytest.approx(value, rel=1e-9)
    assert rows["pcgrad"].vs_control == rows["pcgrad"].vs_baseline
    texts = written(summary, tmp_path)
    assert Comparison.read(tmp_path) == summary
    assert f"{expected['pcgrad', 'sum']}"[:8] in texts["csv"]
    assert "Holm" in texts["terminal"]
    assert "(4)" in texts["md"]


def test_findings_go_by_the_corrected_values():
    """One of ten equal methods falls below 0.05 by chance: it is not called better."""
    generator = np.random.default_rng(0)
    base = 70 + generator.normal(size=3)
    noise = generator.normal(size=(10, 3))
    noise[0] = [1.0, 1.3, 1.15]
    scores = {"sum": list(base)}
    scores |= {f"gradvac:beta={i}": list(base + own) for i, own in enumerate(noise)}
    summary = compared(scores)
    lucky = summary.methods[1].vs_baseline
    assert lucky.p < 0.01
    assert lucky.p_holm > 0.05
    assert "No method is clearly better" in summary.findings[0]


def test_a_cost_that_is_unknown_is_a_dash(tmp_path):
    runs = [run("sum", 0, 70.0), run("pcgrad", 0, 0, "was killed by signal 9"), run("pcgrad", 1, 70.0)]
    texts = written(summarise(runs), tmp_path)
    for where, text in texts.items():
        assert "nanx" not in text, where
        assert "nan" not in text, where


def test_what_a_dead_run_said_ends_with_one_full_stop(tmp_path):
    from gradaccord.compare.processes import OUTPUT, _collect

    dead = run("sum", 1, 0, "")
    dead.results, dead.failure, dead.folder = None, None, tmp_path
    (tmp_path / OUTPUT).write_text("gradaccord: The loss of task 'a' is not finite.\n")
    _collect(dead)
    summary = summarise([run("sum", 0, 70.0), dead])
    assert any("is not finite." in sentence for sentence in summary.remarks)
    assert not any(".." in sentence for sentence in summary.remarks)
    assert math.isnan(summary.methods[0].vs_baseline.p)
