"""States and what pools them; what every trunk does unless it says otherwise."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from gradaccord.models.trunks.trunk import States, Trunk, save_own


class Own(Trunk):
    hidden = 3

    def __init__(self) -> None:
        super().__init__()
        self.below, self.above = (nn.Sequential(nn.BatchNorm1d(3), nn.Dropout()) for _ in range(2))


def test_a_sequence_is_its_first_token_the_mean_of_its_own_or_what_the_trunk_says():
    tokens = torch.arange(24, dtype=torch.float64).view(2, 4, 3)
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]])
    assert torch.equal(States(tokens, mask).pooled, tokens[:, 0])
    mean = torch.stack([tokens[0, :2].mean(0), tokens[1].mean(0)])
    torch.testing.assert_close(States(tokens, mask, "mean").pooled, mean)
    nothing = States(tokens, torch.zeros_like(mask), "mean").pooled
    assert not nothing.any()  # and not NaN
    sentences = torch.ones(2, 7)
    assert States(tokens, mask, "mean", sentences).pooled is sentences


def test_frozen_batch_norms_keep_their_statistics_in_training():
    trunk = Own()
    trunk.frozen = ("below",)
    assert trunk.train() is trunk
    assert [part.training for part in trunk.below] == [False, True]
    assert [part.training for part in trunk.above] == [True, True]
    trunk.eval()
    assert not any(module.training for module in trunk.modules())


def test_what_a_trunk_cannot_do_is_named():
    with pytest.raises(ValueError, match="Own cannot recompute .*: set train.checkpointing to"):
        Own().checkpoint()
    with pytest.raises(ValueError, match="Own predicts no tokens: choose another model"):
        Own().masked_lm_head()
    assert (Own().options(), Own().pooled_width) == ({}, 3)


def test_a_trunk_of_one_s_own_is_written_in_two_files(tmp_path):
    load_file = pytest.importorskip("safetensors.torch").load_file
    trunk = Own()
    save_own(trunk, tmp_path, {"kind": "own", "hidden": 3})
    assert json.loads((tmp_path / "config.json").read_text()) == {"kind": "own", "hidden": 3}
    again = Own()
    again.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(again.below[0].weight, trunk.below[0].weight)
