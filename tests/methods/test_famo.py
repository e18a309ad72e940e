"""FAMO: its log loss and its logits, against autograd and torch's own Adam."""

from __future__ import annotations

import pytest
import torch
from toy import trunk
from weigh_problems import assert_same, by_hand, distance, trained

import gradaccord

LEAST = {"a": 0.1, "c": -0.5}


@pytest.mark.parametrize("shared", [False, True])
def test_thirty_steps_equal_the_published_algorithm_on_the_next_losses(shared):
    logits = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([logits], lr=0.1, weight_decay=0.01)
    least = torch.tensor([0.1, 0.0, -0.5], dtype=torch.float64)
    before = []

    def published(losses):
        logs = (losses - least).log()
        if before:
            adam.zero_grad()
            (torch.softmax(logits, 0) @ (before[-1] - logs.detach())).backward()
            adam.step()
        before.append(logs.detach())
        z = torch.softmax(logits.detach(), 0)
        c = 1 / (z / (losses.detach() - least)).sum()
        return 3 * c * (z @ logs)

    expected = by_hand(published, shared)
    make = lambda m: gradaccord.FAMO(m, lr=0.1, weight_decay=0.01, min_losses=LEAST)  # noqa: E731
    assert_same(trained(make, shared), expected)
    assert float(logits.detach().std()) > 0.03  # they have learned something
    assert distance(expected, trained(lambda m: gradaccord.FAMO(m, lr=0.0), shared)) > 1e-3


def test_it_agrees_with_torchjd_given_the_next_losses():
    scalarization = pytest.importorskip("torchjd.scalarization", reason="TorchJD is not installed")
    theirs, ours = scalarization.FAMO(3, lr=0.1).double(), gradaccord.FAMO(trunk(), lr=0.1)
    generator = torch.Generator().manual_seed(0)
    for step in range(30):
        losses = torch.rand(3, dtype=torch.float64, generator=generator) + 0.1
        losses.requires_grad_()
        if step > 0:
            theirs.update(losses)
        (weights,) = torch.autograd.grad(theirs(losses), losses)
        found = ours.weigh(dict(zip("abc", losses.tolist(), strict=True)))
        expected = (3 * weights / weights.sum()).tolist()
        assert list(found.values()) == pytest.approx(expected, rel=1e-5)  # they add 1e-8 to losses


def test_a_task_that_falls_slower_gains_weight():
    method = gradaccord.FAMO(trunk(), reduction="sum")
    for step in range(20):
        weights = method.weigh({"slow": 1.0, "fast": 1.0 * 0.9**step + 1e-9})
    assert method.logits["slow"] > 0 > method.logits["fast"]
    assert sum(weights.values()) == pytest.approx(2)


def test_a_task_learns_only_when_it_was_in_the_step_before():
    method = gradaccord.FAMO(trunk())
    for losses in ({"a": 1.0, "b": 1.0}, {"a": 0.5}, {"a": 0.4, "b": 0.9}):
        method.weigh(losses)
    assert method.moments.keys() == {"a"}


def test_a_loss_below_its_least_is_refused():
    with pytest.raises(ValueError, match=r"Task 'a' has the loss 1, which is not above 2: FAMO .*\.$"):
        gradaccord.FAMO(trunk(), min_losses={"a": 2.0}).weigh({"a": 1.0})
