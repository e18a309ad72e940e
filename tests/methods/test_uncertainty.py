"""Uncertainty weighting: its joint loss, by gradient steps on weights and variances."""

from __future__ import annotations

import pytest
import torch
from toy import losses_of, trunk
from weigh_problems import assert_same, by_hand, trained

import gradaccord


@pytest.mark.parametrize("shared", [False, True])
def test_thirty_steps_equal_joint_descent_on_the_published_loss(shared):
    log_variances = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    own = torch.optim.SGD([log_variances], lr=0.2)
    waiting = []

    def published(losses):
        if waiting:
            own.step()  # with the gradient of the step before
            own.zero_grad()
        waiting.append(True)
        return (losses / (2 * log_variances.exp()) + log_variances / 2).sum()

    expected = by_hand(published, shared)
    assert_same(trained(lambda m: gradaccord.UncertaintyWeighting(m, lr=0.2), shared), expected)
    assert float(log_variances.detach().abs().max()) > 0.2  # they have learned something


def test_a_constant_loss_is_divided_by_twice_its_size():
    method = gradaccord.UncertaintyWeighting(trunk(), lr=0.5)
    for _ in range(200):
        weights = method.weigh({"a": 4.0, "b": 0.25})
    assert weights == pytest.approx({"a": 1 / 8, "b": 2.0})


def test_a_negative_loss_is_refused_and_nothing_has_changed():
    model = trunk()
    method = gradaccord.UncertaintyWeighting(model)
    losses = losses_of(model)
    with pytest.raises(ValueError, match=r"Task 'b' has the loss -.*, which is negative: .*shift"):
        method.backward(losses | {"b": lambda: losses["b"]() - 50})
    assert method.log_variances == {}
    assert all(p.grad is None for p in model.parameters())
