"""Each kind learns 32 real examples by heart, and predicts the same whatever the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from kinds_support import CASES, Case, overfit

from gradaccord.data.encoded import Encoded
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.tasks import evaluate

EVERY = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def learned(case: Case, examples: Sequence[Any]) -> tuple[MultiTaskModel, Encoded]:
    return overfit(case.task, examples, until=case.until, pooling=case.pooling, lr=case.lr)


@EVERY
def test_learns_32_real_examples_by_heart(case: Case) -> None:
    examples = case.real()
    assert len(examples) == 32
    model, encoded = learned(case, examples)
    assert evaluate(model, "it", case.task, examples, encoded).scores[case.task.metric] >= case.until


@EVERY
def test_learns_the_made_up_examples_by_heart(case: Case) -> None:
    model, encoded = learned(case, case.made)
    scores = evaluate(model, "it", case.task, case.made, encoded).scores
    assert scores[case.task.metric] >= case.until
