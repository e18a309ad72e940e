"""Sum and Mean."""

from __future__ import annotations

import torch
from toy import losses_of, trunk

import gradaccord


def test_a_sum_without_measurement_is_the_same_gradient_with_the_losses_alone():
    measured, blind = trunk(rows=3000), trunk(rows=3000)
    expected = gradaccord.Sum(measured).backward(losses_of(measured, rows=3000))
    report = gradaccord.Sum(blind, measure=False).backward(losses_of(blind, rows=3000))
    for p, q in zip(measured.parameters(), blind.parameters(), strict=True):
        torch.testing.assert_close(q.grad, p.grad)
    assert torch.equal(report.losses, expected.losses)
    assert torch.isnan(report.gram).all()
    assert report.finite
    assert report.pairs == {}
