"""Displaced weights come back."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gradaccord.core.temporary_weights import displaced


@pytest.mark.parametrize("fails", [False, True])
def test_displaced_weights_come_back_bit_for_bit(fails):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    weights = [p.detach().clone() for p in model.parameters()]
    buffers = [b.clone() for b in model.buffers()]
    direction = [torch.randn_like(p) if i != 1 else None for i, p in enumerate(model.parameters())]
    try:
        with displaced(list(model.parameters()), direction, 0.37, model.buffers()):
            model(torch.randn(5, 3))
            for p, d, w in zip(model.parameters(), direction, weights, strict=True):
                expected = w if d is None else w + 0.37 * d
                torch.testing.assert_close(p.detach(), expected)
            if fails:
                raise ValueError("in the displaced pass")
    except ValueError:
        assert fails
    assert all(torch.equal(p, w) for p, w in zip(model.parameters(), weights, strict=True))
    assert all(torch.equal(b, o) for b, o in zip(model.buffers(), buffers, strict=True))
