"""From runs to a comparison: means, costs, corrected p values, findings."""

import json

import numpy as np
import pytest
from compare_toy import table
from made_results import compared, made_run
from scipy.stats import ttest_rel

from gradaccord.compare.comparison import Comparison
from gradaccord.compare.summary import summarise, unlearned
from gradaccord.compare.tables import markdown, write_tables


def test_its_means_are_those_of_the_runs(finished):
    rows = table(finished)
    for name, row in rows.items():
        folder = finished / name.replace(":", "_")
        results = [json.loads((folder / f"seed-{s}" / "results.json").read_text()) for s in (0, 1)]
        for task in ("film", "bank"):
            values = [result["dev"][task]["accuracy"] for result in results]
            assert row["scores"][task]["mean"] == pytest.approx(sum(values) / 2)
        assert [result["seed"] for result in results] == [0, 1]


def test_budgets_are_equal_in_batch_gradients(finished):
    """Four steps of two tasks are eight gradients; a pair of DotProd by differences takes three."""
    spent = {name: row["costs"]["gradients"] for name, row in table(finished).items()}
    assert spent == {
        "sum": 1.0, "pcgrad": 1.0, "paired_sum": 1.0, "paired_sum@1.1": 1.0,
        "dotprod:mode=difference": pytest.approx(9 / 8),
    }  # fmt: skip


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
    write_tables(summary, tmp_path)
    assert Comparison.read(tmp_path) == summary
    assert f"{expected['pcgrad', 'sum']}"[:8] in (tmp_path / "comparison.csv").read_text()
    assert "Holm" in markdown(summary)
    assert "for all 4 tests" in markdown(summary)


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


@pytest.mark.parametrize(("marked", "said"), [((0, 1), True), ((0,), False), ((), False)])
def test_a_baseline_that_learned_nothing_gets_a_remedy(marked, said):
    """On every seed: then no method can be compared, and the page says what to do first."""
    summary = compared({"sum": [60.0, 61.0], "pcgrad": [60.0, 61.0]})
    first, *rest = summary.methods
    marks = {"a": dict.fromkeys(marked, "within noise of majority")} if marked else {}
    found = unlearned(
        summary.model_copy(update={"methods": (first.model_copy(update={"marks": marks}), *rest)})
    )
    assert bool(found) == said
    if said:
        assert found[0].startswith(
            "sum itself is on no seed clearly better than a constant prediction on a: "
        )


def runs_of(rows):
    """Runs with these scores by seed; None: it diverged."""
    return [
        made_run(name, seed, own, None if own is not None else "diverged")
        for name, scores in rows.items()
        for seed, own in enumerate(scores)
    ]


def test_a_control_of_which_no_run_finished_was_not_beaten():
    rows = {
        "sum": (70, 71, 69, 70.5), "dotprod": (73, 74.1, 72, 73.6),
        "paired_sum": (None,) * 4, "paired_sum@1.1": (None,) * 4,
    }  # fmt: skip
    comparison = summarise(runs_of(rows))
    assert "No method is clearly better than both" in comparison.findings[0]
    own = next(one for one in comparison.methods if one.method == "dotprod")
    assert own.verdict == "control not tested"
    assert markdown(comparison)


def test_the_control_to_beat_is_the_best_over_common_seeds():
    """One that finished only the luckiest seed, or has no number there, is not the best."""
    rows = {
        "sum": (70, 70, 71), "dotprod": (80, 81, 82), "paired_sum": (90, 80, 81),
        "paired_sum@1.1": (95, None, None),
    }  # fmt: skip
    own = next(one for one in summarise(runs_of(rows)).methods if one.method == "dotprod")
    assert own.control == "paired_sum"


def test_no_run_of_negative_scores_is_called_unlearned():
    found = compared({"sum": [-12.0, -12.5, -12.2], "pcgrad": [-11.0, -11.5, -11.2]})
    assert not any(own.collapsed for own in found.methods)
