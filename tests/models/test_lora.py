"""LoRA: the pretrained outputs at first, and one plain model with the trained outputs at the end."""

import copy
import sys

import pytest
import torch
from small_models import ARCHITECTURES, save_checkpoint

from gradaccord.models.trunks.characters import CharacterTrunk
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.models.trunks.lora import add_lora, has_lora, merge_lora, without_lora

BATCH = {
    "input_ids": torch.tensor([[5, 6, 7, 8]]),
    "attention_mask": torch.ones(1, 4, dtype=torch.long),
}


def move(trunk):
    """Its adapters somewhere else."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in trunk.named_parameters():
            if "lora_" in name:
                parameter.add_(0.1 * torch.randn_like(parameter))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_adapters_begin_at_the_pretrained_outputs_and_become_plain_weights(architecture, tmp_path):
    plain, _ = load_trunk(save_checkpoint(tmp_path, architecture))
    trunk = copy.deepcopy(plain)
    known = {"target_modules": "all-linear"} if architecture == "pegasus" else {}  # unknown to peft
    add_lora(trunk, {"r": 3, "lora_alpha": 6, **known})
    trained = {name for name, p in trunk.named_parameters() if p.requires_grad}
    assert trained
    assert all("lora_" in name for name in trained)
    with torch.no_grad():
        assert torch.equal(trunk(BATCH).tokens, plain(BATCH).tokens)
        move(trunk)
        before = trunk(BATCH).tokens
        assert not torch.allclose(before, plain(BATCH).tokens, atol=1e-4)
        copied = without_lora(trunk)
        assert has_lora(trunk)
        merge_lora(trunk)
        assert trunk.state_dict().keys() == plain.state_dict().keys()
        assert torch.allclose(trunk(BATCH).tokens, before, atol=1e-5)
        assert torch.equal(trunk(BATCH).tokens, copied(BATCH).tokens)
    assert without_lora(plain) is plain


@pytest.mark.parametrize("rslora", [False, True])
def test_the_merged_weight_is_the_formula(rslora, tmp_path):
    """W + (lora_alpha / r) B A, with use_rslora lora_alpha / sqrt(r), in float64."""
    trunk, _ = load_trunk(save_checkpoint(tmp_path, "bert"))
    add_lora(trunk, {"r": 4, "lora_alpha": 6, "use_rslora": rslora, "target_modules": ["query"]})
    trunk.double()
    move(trunk)
    layer = trunk.model.encoder.layer[0].attention.self.query
    product = layer.lora_B["default"].weight @ layer.lora_A["default"].weight
    expected = layer.base_layer.weight + 6 / (2 if rslora else 4) * product
    merge_lora(trunk)
    found = trunk.model.encoder.layer[0].attention.self.query.weight
    assert found.dtype == torch.float64
    assert torch.allclose(found, expected, atol=1e-14)


def test_the_pooling_layer_gets_nothing_to_train(tmp_path):
    trunk, _ = load_trunk(save_checkpoint(tmp_path, "bert"))
    add_lora(trunk, {"target_modules": "all-linear", "use_dora": True})
    trained = {name for name, p in trunk.named_parameters() if p.requires_grad}
    assert any("intermediate.dense" in name for name in trained)
    assert any("magnitude" in name for name in trained)
    assert not any("pooler" in name for name in trained)


def test_what_cannot_be_adapted_is_one_sentence(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="needs a Hugging Face model, and a CharacterTrunk is not one"):
        add_lora(CharacterTrunk(20, width=8), {})
    trunk, _ = load_trunk(save_checkpoint(tmp_path, "bert"))
    with pytest.raises(ValueError, match="does not fit a BertModel .*: name linear layers") as caught:
        add_lora(trunk, {"target_modules": ["nowhere"]})
    assert "\n" not in str(caught.value)
    images, _ = load_trunk("resnet18", channels=1, width=4)
    with pytest.raises(ValueError, match="`target_modules`"):
        add_lora(images, {})
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "gradaccord\[lora\]"'):
        add_lora(trunk, {})
