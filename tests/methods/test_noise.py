"""Noise stays in its ball and off the padding."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.nn import functional as F
from toy import batch, trunk

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
