"""DWA: the published formula over windows of steps."""

from __future__ import annotations

import pytest
import torch
from toy import trunk
from weigh_problems import assert_same, by_hand, distance, trained

import gradaccord


@pytest.mark.parametrize("shared", [False, True])
def test_thirty_steps_equal_the_published_formula(shared):
    history = []

    def published(losses):
        step, epoch = len(history), len(history) // 5
        history.append(losses.detach())
        if epoch < 2:
            return losses.sum()
        means = [torch.stack(history[5 * e : 5 * e + 5]).mean(0) for e in (epoch - 1, epoch - 2)]
        assert step // 5 == epoch
        powers = (means[0] / means[1] / 0.1).exp()
        return (3 * powers / powers.sum() * losses).sum()

    make = lambda m: gradaccord.DWA(m, window=5, temperature=0.1)  # noqa: E731
    expected = by_hand(published, shared)
    assert_same(trained(make, shared), expected)
    assert distance(expected, trained(gradaccord.Sum, shared)) > 1e-3


def test_it_agrees_with_torchjd():
    scalarization = pytest.importorskip("torchjd.scalarization", reason="TorchJD is not installed")
    theirs, ours = (
        scalarization.DWA(temperature=0.5),
        gradaccord.DWA(trunk(), temperature=0.5, window=1),
    )
    generator = torch.Generator().manual_seed(0)
    for _ in range(6):
        losses = torch.rand(3, dtype=torch.float64, generator=generator) + 0.1
        losses.requires_grad_()
        (weights,) = torch.autograd.grad(theirs(losses), losses)
        theirs.step()
        found = ours.weigh(dict(zip("abc", losses.tolist(), strict=True)))
        assert list(found.values()) == pytest.approx(weights.tolist(), rel=1e-12)


def test_a_task_that_comes_later_begins_at_the_rate_one():
    method = gradaccord.DWA(trunk(), window=1, temperature=1.0)
    for losses in ({"a": 2.0}, {"a": 1.0}):
        method.weigh(losses)
    powers = torch.tensor([0.5, 1.0], dtype=torch.float64).exp()
    expected = (2 * powers / powers.sum()).tolist()
    assert list(method.weigh({"a": 1.0, "b": 7.0}).values()) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"temperature": 0.0}, "`temperature` is 0.0"), ({"window": 0}, "`window` is 0")],
)
def test_options_that_make_no_sense(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        gradaccord.DWA(trunk(), **options)


def test_a_loss_of_zero_is_refused():
    with pytest.raises(ValueError, match=r"Task 'a' has the loss 0, which is not above 0: DWA .*\.$"):
        gradaccord.DWA(trunk()).weigh({"a": 0.0, "b": 1.0})
