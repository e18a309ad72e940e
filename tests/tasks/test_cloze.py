"""ReCoRD: scores by hand, entities as rows."""

from __future__ import annotations

import pytest
from kinds_support import tokens

from gradaccord.data.examples import Cloze
from gradaccord.tasks import (
    EntityCloze,
)


def test_record_scores_by_hand() -> None:
    query = f"{Cloze.PLACEHOLDER} won."
    examples = [
        Cloze("p", query, ("the U.S.", "France"), ("US", "United States of America")),
        Cloze("p", query, ("New York City", "Rome"), ("New York",)),
        Cloze("p", query, ("Oslo", "Rome"), ("Rome",)),
        Cloze("p", query, ("Oslo", "Rome")),  # not labelled: not counted
    ]
    scores = EntityCloze().score(examples, ["the U.S.", "New York City", "Oslo", "Oslo"])
    # 1 after normalisation; 2 words of 3 and 2 of 2: F1 4/5; nothing in common.
    assert scores == {"f1": pytest.approx(100 * 1.8 / 3), "em": pytest.approx(100 / 3)}


def test_entities_spelled_alike_are_one_row_and_lost_answers_are_counted() -> None:
    query = f"{Cloze.PLACEHOLDER} won."
    examples = [Cloze("A B", query, ("A", "B", "A"), ("B",)), Cloze("A", query, ("A",), ("C",))]
    encoded = EntityCloze().encode(examples, tokens())
    assert encoded.example.tolist() == [0, 0, 1]
    assert encoded.columns["label"].tolist() == [0, 1, 0]
    assert encoded.notes["answers not among the entities"] == 1
    assert EntityCloze().decode(examples, encoded, [0.5, 0.7, -3.0]) == ["B", "A"]
