"""Error analysis: confusions, the histogram, the worst examples."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch

from gradaccord.data.examples import Candidate, Cloze, Tagged, Text
from gradaccord.tasks import Classification, EntityCloze, MultiAnswer, Regression, Tagging, analyse

COLOURS = Classification(("red", "green", "blue"))


def texts(labels: Sequence[int | float | None]) -> list[Text]:
    return [Text(f"sentence {n}", None, label, str(n)) for n, label in enumerate(labels)]


def test_confusions_by_hand() -> None:
    found = analyse(
        COLOURS, texts([0, 0, 1, 2, 2, None]), ["red", "blue", "green", "red", "red", "red"]
    )
    assert found.confusion is not None
    assert found.confusion.labels == ("red", "green", "blue")
    assert found.confusion.counts == ((1, 0, 1), (0, 1, 0), (2, 0, 0))
    assert (found.examples, found.wrong) == (5, 3)  # one is not labelled
    assert [one.id for one in found.worst] == ["1", "3", "4"]
    assert found.worst[0].text == "sentence 1"


def test_with_rows_the_worst_have_the_highest_loss() -> None:
    examples = texts([0, 0, 1])
    rows = [torch.tensor(row) for row in ([0.0, 1.0, 0.0], [0.0, 9.0, 0.0], [0.0, 5.0, 0.0])]
    said = ["green", "green", "green"]
    found = analyse(COLOURS, examples, said, rows=rows)
    assert [one.id for one in found.worst] == ["1", "0"]
    expected = math.log(2 + math.exp(9.0))
    assert found.worst[0].by == pytest.approx(expected)
    assert [one.id for one in analyse(COLOURS, examples, said, rows=rows, worst=1).worst] == ["1"]


def test_the_spread_of_errors_of_a_regression() -> None:
    gold, said = [0.0, 1.0, 2.0, 5.0], [0.5, 1.0, 2.0, 1.0]
    found = analyse(Regression(pair=None), texts(gold), said)
    assert found.confusion is None
    assert found.histogram is not None
    assert sum(found.histogram.counts) == 4
    assert found.histogram.edges[0] == -4.0
    assert found.histogram.edges[-1] == 4.0
    assert found.histogram.counts[0] == 1  # -4
    assert [(one.id, one.by) for one in found.worst] == [("3", 4.0), ("0", 0.5)]


def test_yes_and_no_and_tags_have_confusions_too() -> None:
    answers = [Candidate("p", "q", str(n), n % 2, "q", str(n)) for n in range(4)]
    found = analyse(MultiAnswer(), answers, [True, True, False, False]).confusion
    assert found is not None
    assert (found.labels, found.counts) == (("false", "true"), ((1, 1), (1, 1)))
    tagged = [Tagged(("Ann", "in", "Rome"), ("B-PER", "O", "B-LOC"))]
    tags = analyse(Tagging(("LOC", "PER")), tagged, [["B-LOC", "O", "B-LOC"]]).confusion
    assert tags is not None
    assert tags.counts == ((1, 0, 0), (0, 1, 0), (0, 1, 0))


def test_an_answer_that_is_right_in_part_is_less_wrong() -> None:
    gap = f"{Cloze.PLACEHOLDER} won."
    examples = [
        Cloze("A passage.", gap, ("York", "New York"), ("New York",), "part"),
        Cloze("A passage.", gap, ("Rome", "Oslo"), ("Oslo",), "none"),
        Cloze("A passage.", gap, ("Rome", "the Oslo"), ("Oslo",), "spelled otherwise"),
    ]
    found = analyse(EntityCloze(), examples, ["York", "Rome", "the Oslo"])
    assert [one.id for one in found.worst] == ["none", "part"]
    assert found.worst[1].by == pytest.approx(100 / 3)
    assert found.worst[0].text == f"{gap} | A passage."


def test_a_missing_prediction_is_an_error() -> None:
    with pytest.raises(ValueError, match="There are 1 predictions for 2 examples"):
        analyse(COLOURS, texts([0, 1]), ["red"])
