"""Noise stays in its ball and off the padding."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.nn import functional as F
from toy import batch, trunk

from gradaccord.methods.regularize.noise import Ball
from gradaccord.methods.regularize.smart import SMART

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("norm", ["inf", "l2"])
@pytest.mark.parametrize("steps", [1, 3])
def test_noise_stays_in_the_ball_and_off_the_padding(norm, steps):
    model = trunk()
    smart = SMART(model, epsilon=0.02, norm=norm, ascent_steps=steps)
    tokens, labels = batch(1)
    mask = torch.ones_like(tokens)
    mask[:3, 2:] = 0
    seen = []
    kept = smart._perturbed
    smart._perturbed = lambda c, noise: seen.append(noise[0]) or kept(c, noise)
    smart.loss(partial(model, tokens, "a"), partial(F.cross_entropy, target=labels), mask=mask)()
    assert all((noise[:3, 2:] == 0).all() for noise in seen)
    for noise in seen[1:]:  # the first is where the ascent starts
        size = noise.abs().amax() if norm == "inf" else (noise[3:].square().mean((1, 2)).sqrt()).max()
        assert size <= 0.02 * (1 + 1e-9)
    assert seen[-2 if smart.probe_every else -1].abs().max() > 0.01


@pytest.mark.parametrize(("variant", "deviation"), [("paper", 0.1 * 0.02), ("public", 1e-5)])
def test_the_ascent_starts_within_a_tenth_of_the_ball_or_where_the_public_code_does(variant, deviation):
    torch.manual_seed(0)
    x = torch.zeros(50, 20, 40, dtype=torch.float64)
    ball = Ball(0.02, "inf", variant)
    start = ball.start(x, None, ball.radius(x, None))
    assert float(start.std()) == pytest.approx(deviation, rel=0.02)


def test_a_step_of_the_public_variant_is_its_formula():
    """noise + 1e-3 gradient, over the largest coordinate of the token and 1e-6."""
    torch.manual_seed(0)
    noise, gradient = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    ball = Ball(0.02, "inf", "public")
    found = ball.ascended(noise, gradient, ball.radius(noise, None), None)
    for i in range(3):
        for j in range(4):
            moved = [
                float(a) + 1e-3 * float(g) for a, g in zip(noise[i, j], gradient[i, j], strict=True)
            ]
            largest = max(map(abs, moved)) + 1e-6
            assert found[i, j].tolist() == pytest.approx(
                [value / largest for value in moved], rel=1e-12
            )


@pytest.mark.parametrize("kind", [("inf", "paper"), ("l2", "paper"), ("inf", "public")])
def test_random_noise_is_as_large_as_the_noise_it_is_compared_with(kind):
    torch.manual_seed(0)
    noise = torch.randn(3, 4, 5, dtype=torch.float64)
    noise[0, 2:] = 0  # padding
    drawn = Ball(0.02, *kind).random_like(noise)
    assert ((drawn == 0) == (noise == 0)).all()
    sizes = {
        ("inf", "paper"): lambda x: x.abs().amax((1, 2)),
        ("l2", "paper"): lambda x: x.square().sum((1, 2)).sqrt(),
        ("inf", "public"): lambda x: x.abs().amax(-1),
    }
    torch.testing.assert_close(sizes[kind](drawn), sizes[kind](noise), rtol=1e-12, atol=0)
    assert not torch.equal(drawn.sign(), noise.sign())
