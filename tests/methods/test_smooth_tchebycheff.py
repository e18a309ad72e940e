"""Smooth Tchebycheff scalarisation: the gradient of the published function."""

from __future__ import annotations

import pytest
import torch
from toy import trunk
from weigh_problems import assert_same, by_hand, trained

import gradaccord

PREFERENCES, IDEAL = {"a": 2.0, "c": 0.5}, {"b": 0.2}


@pytest.mark.parametrize("shared", [False, True])
def test_thirty_steps_equal_descent_on_the_published_function(shared):
    p = torch.tensor([2.0, 1.0, 0.5], dtype=torch.float64)
    ideal = torch.tensor([0.0, 0.2, 0.0], dtype=torch.float64)

    def published(losses):
        return 3 * 0.3 * (p * (losses - ideal) / 0.3).exp().sum().log()

    make = lambda m: gradaccord.SmoothTchebycheff(m, mu=0.3, preferences=PREFERENCES, ideal=IDEAL)  # noqa: E731
    assert_same(trained(make, shared), by_hand(published, shared))


def test_it_agrees_with_torchjd():
    scalarization = pytest.importorskip("torchjd.scalarization", reason="TorchJD is not installed")
    losses = torch.tensor([0.3, 1.7, 0.9], dtype=torch.float64, requires_grad=True)
    third = torch.full((3,), 1 / 3, dtype=torch.float64)
    (weights,) = torch.autograd.grad(scalarization.STCH(mu=0.1, weights=third)(losses), losses)
    method = gradaccord.SmoothTchebycheff(
        trunk(), mu=0.1, preferences=dict.fromkeys("abc", 1 / 3), reduction="mean"
    )
    found = method._weights(["a", "b", "c"], losses.detach())
    torch.testing.assert_close(found, weights)


def test_a_small_mu_trains_the_worst_task_and_a_large_one_all():
    losses = {"a": 1.0, "b": 3.0}
    worst = gradaccord.SmoothTchebycheff(trunk(), mu=0.01).weigh(losses)
    assert worst == pytest.approx({"a": 0.0, "b": 2.0})
    alike = gradaccord.SmoothTchebycheff(trunk(), mu=1e9).weigh(losses)
    assert alike == pytest.approx({"a": 1.0, "b": 1.0})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"mu": 0.0}, r"`mu` is 0.0: it must be a finite number > 0\."),
        ({"preferences": {"a": 0}}, r"`preferences` gives task 'a' 0.0: it must be .* > 0\."),
    ],
)
def test_options_that_make_no_sense(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        gradaccord.SmoothTchebycheff(trunk(), **options)
