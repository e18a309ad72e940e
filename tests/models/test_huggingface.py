"""Hugging Face encoders as trunks: found, read, limited and refused as a user would expect."""

from __future__ import annotations

import pytest
import torch
from small_models import ENCODER_DECODERS, TEXTS, batch_of, save_checkpoint

from gradaccord.models.trunks.loading import load_trunk

pytest.importorskip("transformers")


def test_states_equal_those_of_automodel(folder, architecture):
    from transformers import AutoModel

    trunk, tokens = load_trunk(folder)
    trunk.eval()
    batch = batch_of(tokens).batch(range(len(TEXTS)))
    reference = AutoModel.from_pretrained(folder).eval()
    if architecture in ENCODER_DECODERS:
        reference = reference.get_encoder()
    with torch.no_grad():
        assert torch.equal(trunk(batch).tokens, reference(**batch).last_hidden_state)
    assert trunk(batch).tokens.shape[-1] == trunk.hidden == 32


def test_pooled_vectors_do_not_change_with_padding(folder):
    for pooling in ("cls", "mean"):
        trunk, tokens = load_trunk(folder, pooling=pooling)
        trunk.eval()
        encoded = batch_of(tokens)
        with torch.no_grad():
            together = trunk(encoded.batch(range(len(TEXTS)))).pooled
            alone = torch.cat([trunk(encoded.batch([i])).pooled for i in range(len(TEXTS))])
        assert torch.allclose(together, alone, atol=1e-5)


def test_default_pooling(folder, architecture):
    trunk, _ = load_trunk(folder)
    assert trunk.pooling == ("mean" if architecture in ENCODER_DECODERS else "cls")


def test_saved_trunk_is_read_by_automodel(folder, architecture, tmp_path):
    from transformers import AutoModel

    trunk, tokens = load_trunk(folder)
    with torch.no_grad():
        for parameter in trunk.parameters():
            parameter.add_(0.01)
    trunk.eval()
    trunk.save(tmp_path)
    tokens.save(tmp_path)
    batch = batch_of(tokens).batch([0, 1])
    again, same_tokens = load_trunk(tmp_path)
    reference = AutoModel.from_pretrained(tmp_path).eval()
    if architecture in ENCODER_DECODERS:
        reference = reference.get_encoder()
    with torch.no_grad():
        expected = trunk(batch).tokens
        assert torch.equal(again.eval()(batch).tokens, expected)
        assert torch.equal(reference(**batch).last_hidden_state, expected)
    assert same_tokens.fingerprint == tokens.fingerprint


def test_the_longest_sequence_fits_and_is_no_longer(folder, architecture):
    trunk, tokens = load_trunk(folder)
    assert tokens.max_length == 128
    batch = batch_of(tokens, ["the dog and the fox " * 100]).batch([0])
    assert batch["input_ids"].shape == (1, 128)
    assert torch.isfinite(trunk(batch).tokens).all()
    assert trunk.max_length == (None if architecture == "t5" else 128)


def test_every_trainable_weight_gets_a_gradient(folder):
    trunk, tokens = load_trunk(folder)
    trunk(batch_of(tokens).batch([0, 1])).pooled.sin().sum().backward()
    without = [n for n, p in trunk.named_parameters() if p.requires_grad and p.grad is None]
    assert without == []


def test_weights_come_in_single_precision(tmp_path):
    from transformers import AutoModel

    save_checkpoint(tmp_path, "bert")
    AutoModel.from_pretrained(tmp_path).half().save_pretrained(tmp_path)
    trunk, _ = load_trunk(tmp_path)
    assert {p.dtype for p in trunk.parameters()} == {torch.float32}


def test_eager_attention_can_be_differentiated_twice(tmp_path):
    trunk, tokens = load_trunk(save_checkpoint(tmp_path, "bert"), attention="eager")
    loss = trunk(batch_of(tokens).batch([0, 1])).pooled.sin().sum()
    weights = [p for p in trunk.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(loss, weights, create_graph=True)
    torch.autograd.grad(sum(g.square().sum() for g in gradients), weights)


class TestRefusals:
    def test_pickle(self, tmp_path):
        save_checkpoint(tmp_path, "bert")
        weights = tmp_path / "model.safetensors"
        from safetensors.torch import load_file

        torch.save(load_file(weights), tmp_path / "pytorch_model.bin")
        weights.unlink()
        with pytest.raises(ValueError, match="pickle .pytorch_model.bin.*save it again"):
            load_trunk(tmp_path)

    def test_no_such_folder(self):
        with pytest.raises(ValueError, match="./nowhere is not a folder"):
            load_trunk("./nowhere")

    def test_folder_without_a_model(self, tmp_path):
        with pytest.raises(ValueError, match="holds no config.json"):
            load_trunk(tmp_path)

    def test_weights_missing(self, tmp_path):
        save_checkpoint(tmp_path, "bert")
        (tmp_path / "model.safetensors").unlink()
        with pytest.raises(ValueError, match="holds no model.safetensors"):
            load_trunk(tmp_path)

    def test_weights_cut_off(self, tmp_path):
        save_checkpoint(tmp_path, "bert")
        weights = tmp_path / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:1000])
        with pytest.raises(ValueError, match="cannot be read") as raised:
            load_trunk(tmp_path)
        assert "\n" not in str(raised.value)

    def test_weights_of_another_model(self, tmp_path):
        save_checkpoint(tmp_path / "bert", "bert")
        save_checkpoint(tmp_path / "bart", "bart")
        (tmp_path / "bart" / "model.safetensors").replace(tmp_path / "bert" / "model.safetensors")
        with pytest.raises(ValueError, match="do not belong together"):
            load_trunk(tmp_path / "bert")

    def test_code_of_a_checkpoint_is_not_run(self, tmp_path):
        import json

        save_checkpoint(tmp_path, "bert")
        config = json.loads((tmp_path / "config.json").read_text())
        config |= {"model_type": "mine", "auto_map": {
            "AutoConfig": "mine.MineConfig", "AutoModel": "mine.MineModel"}}  # fmt: skip
        (tmp_path / "config.json").write_text(json.dumps(config))
        (tmp_path / "mine.py").write_text("raise SystemExit('ran')")
        with pytest.raises(ValueError, match="cannot be loaded"):
            load_trunk(tmp_path)

    def test_no_tokenizer(self, tmp_path):
        save_checkpoint(tmp_path, "bert")
        for file in tmp_path.glob("token*"):
            file.unlink()
        with pytest.raises(ValueError, match="has no tokenizer.json"):
            load_trunk(tmp_path)

    def test_tokenizer_cut_off(self, tmp_path):
        save_checkpoint(tmp_path, "bert")
        (tmp_path / "tokenizer.json").write_text("{")
        with pytest.raises(ValueError, match="no tokenizer that can be read"):
            load_trunk(tmp_path)

    def test_pooling(self, tmp_path):
        save_checkpoint(tmp_path, "bert")
        with pytest.raises(ValueError, match="`pooling` is 'max': use 'cls' or 'mean'"):
            load_trunk(tmp_path, pooling="max")


def test_an_encoder_with_fresh_weights_is_of_the_same_shape_as_a_control(folder):
    trained, tokens = load_trunk(folder)
    torch.manual_seed(1)
    fresh, same = load_trunk(folder, pretrained=False)
    torch.manual_seed(1)
    again, _ = load_trunk(folder, pretrained=False)
    assert same.fingerprint == tokens.fingerprint
    named = dict(trained.named_parameters())
    assert [*named] == [name for name, _ in fresh.named_parameters()]
    moved = 0
    for (name, new), other in zip(fresh.named_parameters(), again.parameters(), strict=True):
        assert torch.equal(new, other)
        assert new.shape == named[name].shape
        moved += not torch.equal(new, named[name])
    assert moved > len(named) / 3  # norms and biases begin alike
    with pytest.raises(ValueError, match="leave one out"):
        load_trunk(folder, decoder=True, pretrained=False)
