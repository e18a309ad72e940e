"""Scores of classes, against scikit-learn; predictions that are no answer."""

from __future__ import annotations

import random
import warnings

import pytest
from sklearn.metrics import accuracy_score, f1_score

from gradaccord.data.examples import Candidate, Cloze, Text
from gradaccord.tasks import (
    Classification,
    EntityCloze,
    MultiAnswer,
)


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize(("labels", "average"), [("abcde", "macro"), ("ab", "macro"), ("ab", "binary")])
def test_scores_are_those_of_scikit_learn(labels: str, average: str, rows: int) -> None:
    """Also where a class is never true, never predicted, or neither."""
    draw = random.Random(rows)
    task = Classification(tuple(labels), average=average)  # type: ignore[arg-type]
    positive = {"pos_label": labels[-1]} if average == "binary" else {}
    for _ in range(30):
        gold = draw.choices(range(len(labels)), weights=[0, *[1] * (len(labels) - 1)], k=rows)
        said = draw.choices(labels, k=rows)
        found = task.score([Text("x", label=label) for label in gold], said)
        truth = [labels[label] for label in gold]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a single class
            f1 = f1_score(truth, said, average=average, zero_division=0.0, **positive)
        assert found["accuracy"] == pytest.approx(100 * accuracy_score(truth, said), abs=1e-10)
        assert found["f1"] == pytest.approx(100 * f1, abs=1e-10)


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_the_f1_of_answers_is_that_of_scikit_learn(rows: int) -> None:
    draw = random.Random(rows)
    for _ in range(30):
        gold, said = draw.choices((0, 1), k=rows), draw.choices((False, True), k=rows)
        found = MultiAnswer().score([Candidate("p", "q", f"{i}", g) for i, g in enumerate(gold)], said)
        assert found["f1a"] == pytest.approx(100 * f1_score(gold, said, zero_division=0.0), abs=1e-10)


def test_a_prediction_that_is_no_answer_is_an_error() -> None:
    with pytest.raises(ValueError, match="must be true or false"):
        MultiAnswer().score([Candidate("p", "q", "a", 1)], ["maybe"])
    with pytest.raises(ValueError, match="text of an entity"):
        EntityCloze().score([Cloze("p", "@placeholder", ("A",), ("A",))], [3])
