"""SAM: its update on quadratics, and what it reports of the displaced pass."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from copies_problems import length_at_zero
from pair_problems import (
    Bowls,
)
from toy import batch, loss_of, trunk

import gradaccord
from gradaccord import SAM


def test_sam_on_quadratics():
    bowls = Bowls()
    SAM(bowls, radius=0.3).backward({"one": partial(bowls.loss, 0)})
    unit = bowls.gradient(0) / bowls.gradient(0).norm()
    torch.testing.assert_close(bowls.x.grad, bowls.gradient(0) + 0.3 * bowls.A[0] @ unit)
    SAM(bowls, radius=0.3, batches=2).backward(bowls.pair())
    expected = bowls.gradient(0) + bowls.gradient(1) + 0.3 * bowls.A[1] @ unit
    torch.testing.assert_close(bowls.x.grad, expected)


@pytest.mark.parametrize("batches", [1, 2])
def test_sam_tells_of_a_displaced_pass_that_alone_is_nan(batches):
    """At the weights themselves all is well; a little further on the gradient is NaN."""
    model = trunk()
    weight = model.layers[0].weight
    here = weight.detach().clone()

    def loss():
        moved = bool((weight.detach() != here).any())
        return length_at_zero(model) if moved else loss_of(model, "a", *batch(1))

    losses = {"a": loss} if batches == 1 else {"a": loss, "b": loss}
    report = gradaccord.SAM(model, batches=batches).backward(losses)
    assert bool(torch.isnan(weight.grad).any())
    assert torch.isfinite(report.losses).all()
    assert not report.finite
