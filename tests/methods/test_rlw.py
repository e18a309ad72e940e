"""RLW: softmax of normal draws of its own generator."""

from __future__ import annotations

import pytest
import torch
from toy import trunk
from weigh_problems import assert_same, by_hand, trained

import gradaccord


@pytest.mark.parametrize("shared", [False, True])
def test_thirty_steps_equal_normal_draws_of_the_same_seed(shared):
    generator = torch.Generator().manual_seed(5)

    def published(losses):
        powers = torch.randn(3, generator=generator, dtype=torch.float64).exp()
        return (3 * powers / powers.sum() * losses).sum()

    expected = by_hand(published, shared)
    assert_same(trained(lambda m: gradaccord.RLW(m, seed=5), shared), expected)


def test_torchs_own_generator_is_left_alone():
    method = gradaccord.RLW(trunk())
    before = torch.get_rng_state()
    method.weigh({"a": 1.0, "b": 1.0})
    assert torch.equal(torch.get_rng_state(), before)


def test_weights_have_the_mean_one():
    method = gradaccord.RLW(trunk())
    drawn = torch.tensor([list(method.weigh({"a": -1.0, "b": 2.0}).values()) for _ in range(2000)])
    torch.testing.assert_close(drawn.sum(1), torch.full((2000,), 2.0))
    assert float(drawn.mean(0)[0]) == pytest.approx(1, abs=0.05)
    assert float(drawn.std(0)[0]) > 0.3
