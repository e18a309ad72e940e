"""Heads under any name; keys of heads as 0.1 wrote them."""

import pytest
import torch
from small_models import save_checkpoint
from torch import nn

from gradaccord.models.multitask import MultiTaskModel, with_head_keys
from gradaccord.models.trunks.loading import load_trunk

pytest.importorskip("transformers")

# Attributes of modules and dictionaries, names that torch forbids, and names that look like keys.
NAMES = ["type", "keys", "pop", "training", "", "xnli.de", "xnli·de", "xnli%2Ede", "head_type", "a/b"]


@pytest.fixture(scope="module")
def trunk(tmp_path_factory):
    return load_trunk(save_checkpoint(tmp_path_factory.mktemp("model") / "bert", "bert"))[0]


def test_a_head_may_have_any_name(trunk):
    heads = {name: nn.Linear(1, 1) for name in NAMES}
    model = MultiTaskModel(trunk, heads)
    assert all(model.head(name) is head for name, head in heads.items())
    assert len(model.heads) == len(NAMES)


def test_keys_of_0_1_are_renamed_and_todays_stay():
    names = ["sst", "head_sst", "xnli.de"]
    old = {
        "trunk.weight": torch.zeros(1),
        "heads.sst.0.weight": torch.ones(1),
        "heads.head_sst.0.weight": torch.ones(1),
        "heads.xnli·de.0.weight": torch.ones(1),
    }
    state = {"model": old, "method": {"phi": dict(old)}, "names": list(old), "step": 3}
    new = with_head_keys(state, names, state["model"])
    expected = [
        "trunk.weight",
        "heads.head_sst.0.weight",
        "heads.head_head_sst.0.weight",
        "heads.head_xnli%2Ede.0.weight",
    ]
    assert list(new["model"]) == list(new["method"]["phi"]) == new["names"] == expected
    assert with_head_keys(new, names, new["model"]) == new
