"""`tasks.intervals`: bootstrap intervals against scipy's, and what is drawn together."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from scipy.stats import bootstrap, pearsonr
from sklearn.metrics import f1_score

from gradaccord.core.watch import Watch
from gradaccord.data.examples import Candidate, Question, Text
from gradaccord.tasks.intervals import intervals
from gradaccord.tasks.registry import build

CLOSE = 2.0  # percentage points between two bootstraps


def oracle(statistic, *data):
    found = bootstrap(
        data, statistic, paired=True, vectorized=False, method="percentile", n_resamples=500, rng=1
    )
    return 100 * found.confidence_interval.low, 100 * found.confidence_interval.high


def test_classes_agree_with_scipy():
    draw = random.Random(0)
    labels = ("x", "y", "z")
    gold = [draw.randrange(3) for _ in range(150)]
    said = [g if draw.random() < 0.7 else draw.randrange(3) for g in gold]
    examples = [Text("t", None, g) for g in gold] + [Text("not labelled")]
    predictions = [labels[s] for s in said] + ["x"]
    found = intervals(build("classification", labels=labels), examples, predictions)
    right = np.array([g == s for g, s in zip(gold, said, strict=True)], dtype=float)
    low, high = oracle(np.mean, right)
    own = found["accuracy"]
    assert (own.value, own.resamples) == (pytest.approx(100 * right.mean()), 1000)
    assert (own.low, own.high) == (pytest.approx(low, abs=CLOSE), pytest.approx(high, abs=CLOSE))
    low, high = oracle(lambda g, s: f1_score(g, s, average="macro"), np.array(gold), np.array(said))
    own = found["f1"]
    assert (own.low, own.high) == (pytest.approx(low, abs=CLOSE), pytest.approx(high, abs=CLOSE))


@pytest.mark.parametrize("average", ["macro", "binary"])
def test_scores_of_counts_are_the_scores(average):
    labels = ("x", "y") if average == "binary" else ("w", "x", "y", "z")
    task, draw = build("classification", labels=labels, average=average), random.Random(1)
    for size in (1, 3, 40):
        gold, said = ([draw.randrange(len(labels)) for _ in range(size)] for _ in range(2))
        table = torch.zeros(1, len(labels), len(labels))
        for place in zip(gold, said, strict=True):
            table[0][place] += 1
        expected = task.score([Text("t", None, g) for g in gold], [labels[s] for s in said])
        found = {metric: own.item() for metric, own in task.scores_of_counts(table).items()}
        assert found == pytest.approx(expected)


def test_a_correlation_agrees_with_scipy():
    draw = np.random.default_rng(0)
    gold = draw.uniform(0, 5, 200)
    said = gold + draw.normal(0, 2, 200)
    examples = [Text("a", "b", float(g)) for g in gold]
    own = intervals(build("regression"), examples, said.tolist())["pearson"]
    low, high = oracle(lambda a, b: pearsonr(a, b).statistic, gold, said)
    assert (own.low, own.high) == (pytest.approx(low, abs=CLOSE), pytest.approx(high, abs=CLOSE))


def test_answers_to_one_question_are_drawn_together():
    """Exact match is 0 or 100 for whole questions: of one that is right and one that is not."""
    examples = [Candidate("p", q, a, 1) for q in ("q1", "q2") for a in ("a", "b")]
    predictions = [True, True, True, False]
    own = intervals(build("multi_answer"), examples, predictions)["em"]
    assert (own.value, own.low, own.high) == (50, 0, 100)


def test_a_mean_of_single_scores_is_not_scored_again():
    scored = []
    examples = [Question("q?", "Ann and Bob", ("Ann",), (0,), id=str(i)) for i in range(40)]
    predictions = ["Ann" if i % 2 else "Bob" for i in range(40)]
    found = intervals(
        build("question_answering"),
        examples,
        predictions,
        watch=Watch(lambda *seen: scored.append(seen)),
    )
    assert not scored
    assert found["f1"].value == 50
    assert 30 < found["f1"].low < 40 < 60 < found["f1"].high < 70
