"""Predictions do not depend on batch or padding; a perfect file scores 100, a wrong one 0."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kinds_support import CASES, Case, minilm, tokens

from gradaccord.models.multitask import MultiTaskModel
from gradaccord.tasks import predict

EVERY = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@EVERY
def test_predictions_do_not_depend_on_batch_or_padding(case: Case) -> None:
    trunk = minilm()
    model = MultiTaskModel(trunk, {"it": case.task.new_head(trunk)})
    encoded = case.task.encode(case.made, tokens())
    assert len(set(encoded.lengths.tolist())) > 1  # so that something is padded

    def rows(batch_size: int) -> list[Any]:
        return predict(model, "it", case.task, case.made, encoded, batch_size=batch_size)[1]

    alone = rows(1)
    for size in (3, 64):
        for one, other in zip(alone, rows(size), strict=True):
            one, other = torch.as_tensor(one).flatten(), torch.as_tensor(other).flatten()
            shared = min(len(one), len(other))  # choices that a row does not have are not compared
            torch.testing.assert_close(one[:shared], other[:shared], atol=1e-5, rtol=0)


@EVERY
def test_a_perfect_file_scores_100_a_wrong_one_0_an_empty_one_is_an_error(case: Case) -> None:
    gold = [case.task.gold(example) for example in case.made]
    perfect = case.task.score(case.made, gold)
    assert case.task.metric in perfect
    assert all(score == pytest.approx(100) for score in perfect.values())
    wrong = case.task.score(case.made, [case.wrong(truth) for truth in gold])
    assert all(score == pytest.approx(0) for score in wrong.values())
    with pytest.raises(ValueError, match="There are 0 predictions"):
        case.task.score(case.made, [])
    with pytest.raises(ValueError, match="no example to score"):
        case.task.score([], [])
