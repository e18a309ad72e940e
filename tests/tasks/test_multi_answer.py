"""MultiRC: scores by hand; questions with and without a group."""

from __future__ import annotations

import pytest

from gradaccord.data.examples import Candidate
from gradaccord.tasks import (
    MultiAnswer,
)


def test_multirc_scores_by_hand() -> None:
    # Question a: 1 1 0 predicted 1 0 0 (one missed); b: 0 1 predicted 0 1 (exact); c: 0 predicted 1.
    gold = {"a": (1, 1, 0), "b": (0, 1), "c": (0,)}
    examples = [Candidate("p", q, str(i), y, q) for q, ys in gold.items() for i, y in enumerate(ys)]
    scores = MultiAnswer().score(examples, [True, False, False, False, True, True])
    # 3 predicted right, of which 2 are; 3 are right: precision 2/3, recall 2/3.
    assert scores == {"f1a": pytest.approx(200 / 3), "em": pytest.approx(100 / 3)}


def test_multirc_questions_without_a_group_are_told_apart_by_their_words() -> None:
    examples = [Candidate("p", "q1", "x", 1), Candidate("p", "q2", "x", 0)]
    assert MultiAnswer().score(examples, [1, 1])["em"] == 50
