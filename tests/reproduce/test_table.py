"""Ours beside the published numbers."""

import re
from pathlib import Path

import pytest
from reproduce_toy import made_record, save_made

from gradaccord.reproduce.differences import current_records
from gradaccord.reproduce.entry import Published, all_entries
from gradaccord.reproduce.plan import plan
from gradaccord.reproduce.records import OVERALL
from gradaccord.reproduce.table import tables


def cells(grid, name):
    (row,) = [row for row in grid.rows if row[0] == name]
    return dict(zip(grid.headings[1:], row[1:], strict=True))


def test_an_arm_and_the_published_row_of_its_name_share_a_row(trio, tmp_path):
    save_made(trio, tmp_path, lambda planned: 50.0 + planned.seed + 9 * (planned.arm == "pcgrad"))
    grids = tables(trio, current_records(trio, tmp_path))
    first = grids[0]
    assert first.title == "one, equal epochs, dev, 3 seeds, mean ± standard error"
    assert cells(first, "plain") == {
        "film accuracy": "51.0 ± 0.6", "published film": "50", "published bank": "–",
    }  # fmt: skip
    assert cells(first, "pcgrad")["published bank"] == "70"
    assert "lr" not in str(first)
    means, tests = grids[-2:]
    assert cells(means, "pcgrad") == {"equal epochs": "60.00 ± 0.58 (3)", "equal gradients": "–"}
    assert cells(tests, "* pcgrad")["difference"] == "+9.00"
    assert cells(tests, "* pcgrad")["p"] == "equal differences"
    assert tests.note.endswith("* the primary test. All others are exploratory.")
    assert all(len(line) <= 80 for grid in grids for line in grid.text())


def test_languages_that_were_not_trained_have_an_average_of_their_own(trio):
    test = {"film": {"accuracy": 60.0}, "de": {"accuracy": 50.0}, "fr": {"accuracy": 54.0}}
    names = {"metrics": dict.fromkeys(test, "accuracy"), "trained": ["film"]}
    record = made_record(plan(trio, seeds=1)[0], 0.0, dev=test, test=test, **names)
    row = cells(tables(trio, [record])[0], record.arm)
    assert row["zero-shot average"].startswith("52.0")


def test_without_records_the_published_numbers_are_shown(trio):
    (only,) = tables(trio, [])
    assert only.title == "Published: Table 0."
    assert cells(only, "plain") == {"published film": "50", "published bank": "–"}
    bare = trio.model_copy(update={"published": Published(source="Figure 1")})
    assert tables(bare, []) == []


@pytest.fixture
def trio_record(trio):
    metrics = {"sst": "accuracy", "para": "accuracy", "sts": "pearson"}
    scores = {"sst": {"accuracy": 51.7}, "para": {"accuracy": 87.1}, "sts": {"pearson": 89.1}}
    errors = {
        "split": "test", "examples": 10, "wrong": 4,
        "confusion": {"labels": ["a", "b", "c"], "counts": [[2, 1, 1], [1, 2, 1], [0, 0, 2]]},
    }  # fmt: skip
    return made_record(
        plan(trio, seeds=1, only=["plain"], budget="epochs")[0], 0, metrics=metrics, test=scores,
        trained=list(scores), chance={"sst": {"majority": 28.6}}, probes={"cosine": 0.25},
        errors={"sst": errors},
    )  # fmt: skip


def test_overall_counts_a_correlation_as_half_of_one_plus_it(trio, trio_record):
    assert trio_record.value(OVERALL) == pytest.approx(77.78, abs=0.01)  # printed as 0.778
    published = Published(source="Table 2", columns=("overall",), rows={"best": (77.8,)})
    first, costs = tables(trio.model_copy(update={"published": published}), [trio_record])[:2]
    assert cells(first, "plain")["overall"] == "77.8"
    assert cells(first, "best")["published overall"] == "77.8"
    assert cells(first, "majority")["sst accuracy"] == "28.6"
    assert cells(costs, "plain")["cosine"] == "0.250"


def test_of_a_single_arm_every_metric_and_the_errors_are_shown(trio, trio_record):
    arms = {"plain": trio.small.arms["plain"]}
    small = trio.small.model_copy(update={"arms": arms, "controls": {}, "primary": None})
    scores, errors, costs = tables(trio.model_copy(update={"small": small}), [trio_record])
    assert costs.title == "Cost and probes, means"  # the last: one variant alone has no mean of all
    assert cells(scores, "sts")["pearson"] == "89.1"
    assert cells(errors, "sst") == {
        "examples, all seeds": "10", "wrong": "40.0 %", "of these in the next class": "75.0 %",
    }  # fmt: skip


def test_an_entry_may_show_the_errors_of_every_arm(trio, trio_record):
    shown = [grid.title for grid in tables(trio.model_copy(update={"errors": True}), [trio_record])]
    assert "one, plain: errors" in shown
    assert "one, plain: errors" not in [grid.title for grid in tables(trio, [trio_record])]


def test_numbers_from_the_benchmarks_are_those_of_the_benchmarks():
    """Overheads of DotProd: CPU time over that of plain gradients, in percent."""
    text = (Path(__file__).parents[2] / "benchmarks" / "README.md").read_text()
    (grid,) = tables(all_entries()["dotprod-table-3"], [])
    for name, way in (
        ("every 2", "DotProd, differences"),
        ("every 10", "every=10, differences: ten batches"),
    ):
        (ratio,) = re.findall(rf"^\| {way} \| ([\d.]+) \|", text, re.M)
        assert cells(grid, name)["ours overhead %"] == f"{100 * float(ratio) - 100:.0f}"
    assert cells(grid, "every 5")["ours overhead %"] == "–"
