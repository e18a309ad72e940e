"""Replayed random states."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gradaccord.core.replay import RandomState


def test_replay_gives_the_same_masks_and_leaves_the_stream_alone():
    dropout = nn.Dropout(0.5)
    ones = torch.ones(100)
    state = RandomState.capture([ones])
    first = dropout(ones)
    expected = torch.get_rng_state()
    with state.replayed():
        assert torch.equal(dropout(ones), first)
    assert torch.equal(torch.get_rng_state(), expected)
    assert not torch.equal(dropout(ones), first)
    with pytest.raises(ZeroDivisionError), state.replayed():
        raise ZeroDivisionError
    state.restore()
    assert torch.equal(dropout(ones), first)
