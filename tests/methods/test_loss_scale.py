"""Loss-scale normalisation: each loss divided by its weighted mean so far."""

from __future__ import annotations

import pytest
import torch
from toy import trunk
from weigh_problems import assert_same, by_hand, trained

import gradaccord


@pytest.mark.parametrize("shared", [False, True])
def test_thirty_steps_equal_losses_over_their_means(shared):
    history = []

    def scaled(losses):
        history.append(losses.detach())
        ages = torch.arange(len(history) - 1, -1, -1, dtype=torch.float64)
        shares = 0.8**ages / (0.8**ages).sum()
        return (losses / (shares[:, None] * torch.stack(history)).sum(0)).sum()

    expected = by_hand(scaled, shared)
    assert_same(trained(lambda m: gradaccord.LossScale(m, decay=0.8), shared), expected)


@pytest.mark.parametrize("shared", [False, True])
def test_without_memory_it_descends_on_log_losses(shared):
    expected = by_hand(lambda losses: losses.log().sum(), shared)
    assert_same(trained(lambda m: gradaccord.LossScale(m, decay=0.0), shared), expected)


def test_an_absent_task_keeps_its_mean():
    method = gradaccord.LossScale(trunk(), decay=0.5)
    assert method.weigh({"a": 2.0, "b": 5.0}) == pytest.approx({"a": 1 / 2, "b": 1 / 5})
    method.weigh({"b": 1.0})
    assert method.weigh({"a": 8.0}) == pytest.approx({"a": 1 / 6})  # (1/3) 2 + (2/3) 8


def test_what_it_refuses():
    with pytest.raises(ValueError, match=r"`decay` is 1.0: it must be in \[0, 1\)\."):
        gradaccord.LossScale(trunk(), decay=1.0)
    with pytest.raises(ValueError, match=r"Task 'a' has the loss -3, .* running mean; shift"):
        gradaccord.LossScale(trunk()).weigh({"a": -3.0})
