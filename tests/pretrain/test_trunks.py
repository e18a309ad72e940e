"""The names of trunks: those of `models`, and the encoder that is pretrained here."""

from __future__ import annotations

import pytest
import torch

from gradaccord.models.trunks.characters import CharacterTrunk
from gradaccord.models.trunks.loading import BUILT_IN
from gradaccord.pretrain.trunks import load_trunk, trunk_options


def test_the_pretrained_encoder_has_a_name(tmp_path, monkeypatch):
    pytest.importorskip("babel", reason="the names come with Babel, which is not installed")
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path))
    trunk, tokens = load_trunk("characters", steps=2)
    assert isinstance(trunk, CharacterTrunk)
    again, _ = load_trunk("characters", steps=2)
    fresh, same = load_trunk("characters", steps=2, pretrained=False)
    assert same.fingerprint == tokens.fingerprint
    pairs = zip(trunk.parameters(), again.parameters(), fresh.parameters(), strict=True)
    for one, other, new in pairs:
        assert torch.equal(one, other)
        assert one.shape == new.shape
    assert not all(
        torch.equal(a, b) for a, b in zip(trunk.parameters(), fresh.parameters(), strict=True)
    )


def test_all_names_have_options_and_a_mistyped_one_is_answered():
    assert list(trunk_options("characters")) == ["pooling", "pretrained", "seed", "steps", "progress"]
    assert all(trunk_options(name) is not None for name in BUILT_IN)
    assert trunk_options("a/folder") is None
    with pytest.raises(ValueError, match="There is no model 'charcters': did you mean 'characters'"):
        load_trunk("charcters")
