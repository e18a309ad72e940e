"""Masked tokens: the pretrained head is used, and real lines are learned by heart."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import torch
from small_models import TEXTS, save_checkpoint

from gradaccord.core.replay import RandomState
from gradaccord.data.examples import Line
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.tasks import saved_models as saved
from gradaccord.tasks.evaluation import evaluate, predict
from gradaccord.tasks.kinds.masked_lm import MaskedLM

pytest.importorskip("transformers")
NTREX = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "ntrex"
LINES = [Line(text, str(i)) for i, text in enumerate(TEXTS)]
TASK = MaskedLM(share=0.3)


def new_model(folder, architecture="bert", lines=LINES, **options):
    save_checkpoint(folder, architecture, texts=[line.text for line in lines], head=True, **options)
    trunk, tokens = load_trunk(folder)
    return MultiTaskModel(trunk, {"text": TASK.new_head(trunk)}), tokens, TASK.encode(lines, tokens)


@pytest.mark.parametrize("architecture", ["bert", "roberta", "electra"])
def test_head_is_that_of_the_checkpoint(tmp_path, architecture):
    from transformers import AutoModelForMaskedLM

    model, _, encoded = new_model(tmp_path, architecture)
    reference = AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    batch = encoded.batch(range(len(LINES)))
    present = batch["attention_mask"]
    seen = torch.where(present.bool(), batch["seen"], batch["input_ids"])
    with torch.no_grad():
        output = model.eval()("text", batch)
        logits = reference(input_ids=seen, attention_mask=present).logits
    chosen = batch["labels"] != -100
    assert torch.allclose(output["logits"], logits[chosen], atol=1e-5)
    assert torch.equal(output["labels"], batch["labels"][chosen])


def test_loss_is_that_of_the_probe(tmp_path):
    from transformers import AutoModelForMaskedLM

    from gradaccord.probe.masked_lm import MaskedLM as Probe

    model, tokens, encoded = new_model(tmp_path)
    probe = Probe([line.text for line in LINES], tokens.tokenizer, share=0.3)
    before = probe.measure(AutoModelForMaskedLM.from_pretrained(tmp_path))
    scores = evaluate(model, "text", TASK, LINES, encoded).scores
    assert scores["loss"] == pytest.approx(before, rel=1e-5)


def test_decoder_matrix_is_the_heads_own(tmp_path):
    model, _, encoded = new_model(tmp_path)
    batch = encoded.batch(range(4))
    loss, _ = TASK.loss(model.train()("text", batch), batch)
    loss.backward()
    decoder = model.head("text").predict.model.get_output_embeddings().weight
    words = model.trunk.model.get_input_embeddings().weight
    assert decoder.data_ptr() != words.data_ptr()
    assert decoder.grad is not None
    assert torch.equal(decoder, words)  # as pretrained; from here on they part


def test_a_checkpoint_without_a_head_gets_a_fresh_one(tmp_path):
    save_checkpoint(tmp_path, "bert")
    trunk, tokens = load_trunk(tmp_path)
    model = MultiTaskModel(trunk, {"text": TASK.new_head(trunk)})
    batch = TASK.encode(LINES, tokens).batch(range(4))
    output = model.eval()("text", batch)
    loss, items = TASK.loss(output, batch)
    assert torch.isfinite(loss)
    assert items == int((batch["labels"] != -100).sum())
    assert output["logits"].shape == (items, tokens.size)


def real_lines(count: int) -> list[Line]:
    path = NTREX / "newstest2019-src.eng.txt.gz"
    if not path.exists():
        pytest.skip("the shared NTREX lines are not here")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [Line(next(file).strip()[:80], str(i)) for i in range(count)]


@pytest.mark.parametrize("real", [True, False])
def test_learns_masked_words_by_heart(tmp_path, real):
    lines = real_lines(32) if real else LINES
    model, _, encoded = new_model(tmp_path, lines=lines, width=64)
    model.eval()  # the masks that were drawn once, and no dropout
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    for _ in range(60):
        batch = encoded.batch(range(len(lines)))
        loss, _ = TASK.loss(model("text", batch), batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    scores = evaluate(model, "text", TASK, lines, encoded).scores
    assert scores["accuracy"] > 98
    assert scores["perplexity"] < 1.2


def test_training_draws_new_masks_that_a_replay_repeats(tmp_path):
    model, _, encoded = new_model(tmp_path)
    model.train()
    batch = encoded.batch(range(len(LINES)))
    state = RandomState.capture()
    first = model("text", batch)
    with state.replayed():
        again = model("text", batch)
    assert torch.equal(first["logits"], again["logits"])
    assert not torch.equal(first["labels"], model("text", batch)["labels"][: len(first["labels"])])


def test_special_tokens_and_padding_are_never_asked_for(tmp_path):
    model, tokens, encoded = new_model(tmp_path)
    model.train()
    special = set(tokens.tokenizer.all_special_ids)
    for _ in range(20):
        labels = model("text", encoded.batch(range(len(LINES))))["labels"]
        assert not special & set(labels.tolist())


def test_a_single_short_text_has_one_masked_token(tmp_path):
    model, tokens, _ = new_model(tmp_path)
    task = MaskedLM(share=1e-6)
    batch = task.encode([Line("dog")], tokens).batch([0])
    model.train()
    for _ in range(3):
        loss, items = task.loss(model("text", batch), batch)
        assert items >= 1
        assert torch.isfinite(loss)


def test_predictions_do_not_change_with_batch_or_padding(tmp_path):
    model, _, encoded = new_model(tmp_path)
    together, _ = predict(model, "text", TASK, LINES, encoded, batch_size=6)
    alone, _ = predict(model, "text", TASK, LINES, encoded, batch_size=1)
    for one, other in zip(together, alone, strict=True):
        assert (one["tokens"], one["masked"]) == (other["tokens"], other["masked"])
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)


def test_saved_and_loaded(tmp_path):
    model, tokens, encoded = new_model(tmp_path / "start")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    saved.save(tmp_path / "saved", model, tokens, {"text": TASK})
    again, _, _ = saved.load(tmp_path / "saved")
    batch = encoded.batch(range(4))
    with torch.no_grad():
        assert torch.equal(model.eval()("text", batch)["logits"], again("text", batch)["logits"])


def test_scores():
    perfect = [{"tokens": [5, 6], "masked": [5, 6], "loss": 0.0}] * 2
    wrong = [{"tokens": [7, 8], "masked": [5, 6], "loss": 4.0}] * 2
    assert TASK.score(LINES[:2], perfect) == {"accuracy": 100.0, "loss": 0.0, "perplexity": 1.0}
    assert TASK.score(LINES[:2], wrong)["accuracy"] == 0
    assert TASK.score(LINES[:2], wrong)["loss"] == 2.0
    with pytest.raises(ValueError, match="no example"):
        TASK.score([], [])
    with pytest.raises(ValueError, match="0 predictions for 2"):
        TASK.score(LINES[:2], [])


class TestRefusals:
    def test_share(self):
        with pytest.raises(ValueError, match=r"`share` is 0: it must be in \(0, 1\]"):
            MaskedLM(share=0)

    def test_encoder_of_an_encoder_decoder(self, tmp_path):
        trunk, tokens = load_trunk(save_checkpoint(tmp_path, "t5"))
        with pytest.raises(ValueError, match="is not a masked-LM encoder"):
            TASK.new_head(trunk)
        with pytest.raises(ValueError, match="has no mask token"):
            TASK.encode(LINES, tokens)

    def test_images(self):
        trunk, tokens = load_trunk("conv4")
        with pytest.raises(ValueError, match="predicts no tokens"):
            TASK.new_head(trunk)
        with pytest.raises(ValueError, match="reads images"):
            TASK.encode(LINES, tokens)

    def test_nothing_to_mask(self, tmp_path):
        model, tokens, _ = new_model(tmp_path)
        batch = TASK.encode([Line("")], tokens).batch([0])
        with pytest.raises(ValueError, match="No token of the batch can be masked"):
            TASK.loss(model.train()("text", batch), batch)
