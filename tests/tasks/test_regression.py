"""Correlations by their definitions; bounded and symmetric regressions."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from kinds_support import CASES, minilm, tokens

from gradaccord.data.examples import Text
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.tasks import (
    Regression,
    predict,
)


def test_correlations_agree_with_their_definitions() -> None:
    torch.manual_seed(0)
    gold = (5 * torch.rand(50, dtype=torch.float64)).tolist()
    said = (torch.tensor(gold) + torch.randn(50)).tolist()

    def pearson(a: list[float], b: list[float]) -> float:
        x, y = (torch.tensor(v, dtype=torch.float64) - sum(v) / len(v) for v in (a, b))
        return 100 * float(x @ y / (x.norm() * y.norm()))

    def ranks(values: list[float]) -> list[float]:
        return torch.tensor(values).argsort().argsort().double().tolist()

    scores = Regression().score([Text("a", "b", g) for g in gold], said)
    assert scores["pearson"] == pytest.approx(pearson(gold, said))
    assert scores["spearman"] == pytest.approx(pearson(ranks(gold), ranks(said)))


@pytest.mark.parametrize("said", [[2.0, 2.0, 2.0], [1.0, 2.0, math.nan], [1.0, math.inf, 2.0]])
def test_predictions_without_a_correlation_score_0_and_warn_of_nothing(said: list[float]) -> None:
    examples = [Text("a", "b", value) for value in (1.0, 2.0, 3.0)]
    assert Regression().score(examples, said) == {"pearson": 0.0, "spearman": 0.0}
    same = [replace(e, label=3.0) for e in examples]
    assert Regression().score(same, [1.0, 2.0, 3.0])["pearson"] == 0


def test_a_bounded_value_stays_on_its_scale_and_an_unbounded_one_starts_in_its_middle() -> None:
    trunk = minilm()
    examples = CASES["regression"].made
    for bounded in (True, False):
        task = Regression(bounded=bounded, low=1.0, high=3.0)
        huge = torch.tensor([[-100.0], [0.0], [100.0]])
        expected = [1.0, 2.0, 3.0] if bounded else [-100.0, 0.0, 100.0]
        assert task.values(huge).tolist() == expected
        model = MultiTaskModel(trunk, {"it": task.new_head(trunk)})
        encoded = Regression(bounded=bounded).encode(examples, tokens())
        said, _ = predict(model, "it", task, examples, encoded)
        assert all(abs(value - 2) < 1 for value in said)


def test_a_symmetric_regression_predicts_the_same_in_both_orders() -> None:
    trunk = minilm()
    examples = CASES["regression"].made
    swapped = [replace(e, first=e.second, second=e.first) for e in examples]
    task = Regression(symmetric=True)
    model = MultiTaskModel(trunk, {"it": task.new_head(trunk)})
    one = predict(model, "it", task, examples, task.encode(examples, tokens()))[0]
    other = predict(model, "it", task, swapped, task.encode(swapped, tokens()))[0]
    assert one == pytest.approx(other, abs=1e-5)
    plain = Regression()
    first = predict(model, "it", plain, examples, plain.encode(examples, tokens()))[0]
    second = predict(model, "it", plain, swapped, plain.encode(swapped, tokens()))[0]
    assert one == pytest.approx([(a + b) / 2 for a, b in zip(first, second, strict=True)], abs=1e-5)
    assert first != pytest.approx(second, abs=1e-5)
