"""First-order MAML: only the last gradient counts."""

from __future__ import annotations

import pytest
import torch
from trajectory_problems import LR, Bowls, descend

from gradaccord.methods.trajectory.fomaml import FOMAML

pytestmark = pytest.mark.usefixtures("one_thread")


def test_fomaml_counts_the_last_gradient_only() -> None:
    bowls = Bowls()
    phi = bowls.x.detach().clone()
    end = bowls.after(phi, ["a", "b", "c"])
    last = bowls.A["b"] @ (end - bowls.c["b"])
    descend(bowls, FOMAML(bowls, outer_lr=0.5), ["a", "b", "c", "b"])
    torch.testing.assert_close(bowls.x.detach(), phi - 0.5 * LR * last, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("outer_lr", [0.5, 1.0])
def test_fomaml_of_one_step_is_plain_training_at_the_outer_rate(outer_lr: float) -> None:
    bowls = Bowls()
    phi = bowls.x.detach().clone()
    descend(bowls, FOMAML(bowls, inner_steps=1, outer_lr=outer_lr), ["a"])
    expected = phi - outer_lr * LR * bowls.A["a"] @ (phi - bowls.c["a"])
    torch.testing.assert_close(bowls.x.detach(), expected, rtol=1e-13, atol=1e-14)


def test_fomaml_returns_to_phi_when_finished_early() -> None:
    bowls = Bowls()
    phi = bowls.x.detach().clone()
    method = FOMAML(bowls)
    descend(bowls, method, ["a"] * 3)
    method.finish()
    assert torch.equal(bowls.x.detach(), phi)
