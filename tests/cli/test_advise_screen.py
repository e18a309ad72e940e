"""What `advise` shows: verdicts, costs to plain training, and the runs that it proposes."""

from __future__ import annotations

import math
from dataclasses import replace

from printed import printed

from gradaccord.cli.advise_screen import PAIRS, shown
from gradaccord.compare.advisor import Advice
from gradaccord.compare.method_cost import MethodCost
from gradaccord.compare.recommendation import Recommendation
from gradaccord.probe.conflict import UNKNOWN, Bounds, Conflict, OneTask, PairOfTasks, SingleBatches

SINGLE = SingleBatches(0.1, 0.4)


def pair(first: str, second: str, cosine: Bounds) -> PairOfTasks:
    return PairOfTasks(first, second, cosine, SINGLE)


TASKS = tuple(
    OneTask(name, 0.7, length, Bounds(0.5, 0.4, 0.6), SINGLE)
    for name, length in (("film", 1.25), ("a name of more letters than fit", math.nan))
)
PAIRS_FOUND = (
    pair("film", "bank", Bounds(0.5, 0.4, 0.6)),
    pair("film", "long", Bounds(-0.8, -0.9, -0.7)),
    pair("bank", "long", Bounds(0.0, -0.2, 0.2)),
    pair("bank", "news", UNKNOWN),
)
FOUND = Conflict(TASKS, PAIRS_FOUND, 8, 2_500_000, 2_000_000, "film", "film", Bounds(1.0, 1.0, 1.0))
COSTS = {"sum": MethodCost("sum", 0.02, 10), "pcgrad": MethodCost("pcgrad", 0.03, 1234)}
ADVICE = Advice(
    50, FOUND, Recommendation(("pcgrad",), ("They conflict.",)), COSTS, {"sam": "it needs one task"},
    {"dotprod": 3.0, "famo": 1.0}, 10, 65.0,
)  # fmt: skip


def test_pairs_have_verdicts_the_lowest_cosine_first():
    rows = [line.split() for line in printed(shown(ADVICE)).splitlines()]
    found = {tuple(row[:2]): row for row in rows if row and row[0].rstrip(",") in ("film", "bank")}
    assert found["film,", "long"][2:6] == ["-0.80", "[-0.90,", "-0.70]", "conflict"]
    assert found["film,", "bank"][5] == "agree"
    assert found["bank,", "long"][5:7] == ["no", "conflict"]
    assert next(row for row in rows if row[:2] == ["bank,", "news"])[2:4] == ["-", "noise"]
    order = [row[1] for row in rows if row and row[0] in ("film,", "bank,") and "[" in row[3]]
    assert order == ["long", "long", "bank"]


def test_costs_stand_beside_plain_training_and_all_fits_80_columns():
    text = printed(shown(ADVICE))
    rows = [line.split() for line in text.splitlines()]
    assert ["pcgrad", "30", "ms", "1.50", "x", "1,234", "MB"] in rows
    assert ["sum", "20", "ms", "1.00", "x", "10", "MB"] in rows
    words = " ".join(text.split())
    assert "2.50 million trained parameters, 80.0% shared by two tasks or more" in words
    assert "Gradients that they compute per batch: dotprod 3, the others 1." in words
    assert "sam cannot be used here: it needs one task" in words
    assert "- pcgrad (1.50 x): " in words
    assert "10 runs (5 seeds of each method), about 1:05 of processor time each, 10:50 in all:" in words
    assert "a name of more …" in text
    assert "noise" in text
    assert max(map(len, text.splitlines())) <= 80


def test_of_many_pairs_the_rest_is_counted():
    many = tuple(pair("a", f"t{i}", Bounds(i / 100, 0.0, 0.5)) for i in range(PAIRS + 3))
    text = printed(shown(replace(ADVICE, conflict=replace(FOUND, pairs=many))))
    assert "and 3 with higher cosines" in text
    assert f"a, t{PAIRS} " not in text


def test_without_a_method_to_advise_each_task_alone_is_the_question():
    plain = replace(ADVICE, recommended=Recommendation((), ("Nothing conflicts.",)))
    words = " ".join(printed(shown(plain)).split())
    assert "Training each task alone (stl) can." in words
    assert "Worth comparing" not in words
