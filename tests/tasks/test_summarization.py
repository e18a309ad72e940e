"""Summaries: an encoder-decoder learns real headlines by heart, and ROUGE says so."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import torch
from small_models import save_checkpoint
from summaries_toy import MADE, TASK, trained

from gradaccord.data.examples import Document
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.tasks.evaluation import evaluate, predict
from gradaccord.tasks.kinds.summarization import Summarization
from gradaccord.tasks.saved_models import load, save

pytest.importorskip("transformers")


SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "summarization"


def gigaword(count: int) -> list[Document]:
    path = SHARED / "gigaword_test1951.jsonl.gz"
    if not path.exists():
        pytest.skip("the shared Gigaword pairs are not here")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found = [json.loads(next(file)) for _ in range(count)]
    return [Document(f["text"], tuple(f["summaries"]), f["id"]) for f in found]


def reuters(count: int) -> list[Document]:
    path = SHARED / "reuters21578_lead_headline.jsonl.gz"
    if not path.exists():
        pytest.skip("the shared Reuters pairs are not here")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found = [json.loads(next(file)) for _ in range(count)]
    return [Document(f["document"], (f["summary"],), str(f["id"])) for f in found]


@pytest.mark.parametrize("architecture", ["pegasus", "bart"])
def test_learns_32_gigaword_pairs_by_heart(tmp_path, architecture):
    examples = gigaword(32)
    model, _, encoded, loss = trained(tmp_path, examples, architecture)
    result = evaluate(model, "news", TASK, examples, encoded, batch_size=8)
    assert loss < 0.2
    assert result.scores["rougeL"] > 95
    assert result.scores["rouge2"] > 90


def test_learns_32_reuters_pairs_by_heart(tmp_path):
    examples = reuters(32)
    model, _, encoded, _ = trained(tmp_path, examples)
    assert evaluate(model, "news", TASK, examples, encoded, batch_size=8).scores["rougeL"] > 95


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("small"), MADE, "t5", steps=80, batch_size=3, width=32)


def test_learns_made_pairs_by_heart(small):
    model, _, encoded, _ = small
    result = evaluate(model, "news", TASK, MADE, encoded)
    assert result.predictions == [e.summaries[0] for e in MADE]
    assert result.scores == {"rouge1": 100.0, "rouge2": 100.0, "rougeL": 100.0}


@pytest.mark.parametrize("architecture", ["pegasus", "bart", "t5"])
def test_summaries_and_loss_do_not_change_with_batch_or_padding(tmp_path, architecture):
    texts = [e.text for e in MADE]
    save_checkpoint(tmp_path, architecture, texts=texts, head=True)
    trunk, tokens = load_trunk(tmp_path, decoder=True)
    model = MultiTaskModel(trunk, {"news": TASK.new_head(trunk)}).eval()
    encoded = TASK.encode(MADE, tokens)
    together, _ = predict(model, "news", TASK, MADE, encoded, batch_size=3)
    alone, _ = predict(model, "news", TASK, MADE, encoded, batch_size=1)
    assert together == alone
    with torch.no_grad():
        batch = encoded.batch([0, 1, 2])
        whole, items = TASK.loss(model("news", batch), batch)
        parts = [TASK.loss(model("news", b), b) for b in (encoded.batch([i]) for i in range(3))]
    assert items == sum(n for _, n in parts)
    assert torch.allclose(whole * items, sum(loss * n for loss, n in parts), rtol=1e-5)


def test_saved_and_loaded(small, tmp_path):
    from transformers import AutoModel, AutoModelForSeq2SeqLM

    model, tokens, encoded, _ = small
    save(tmp_path / "saved", model, tokens, {"news": TASK})
    again, _, tasks = load(tmp_path / "saved")
    assert tasks == {"news": TASK}
    batch = encoded.batch([0, 1, 2])
    with torch.no_grad():
        assert torch.equal(model("news", batch), again("news", batch))
    assert predict(again, "news", TASK, MADE, encoded)[0] == [e.summaries[0] for e in MADE]
    AutoModel.from_pretrained(tmp_path / "saved")
    AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "saved")


def test_cut_texts_are_counted(small):
    _, tokens, _, _ = small
    notes = Summarization(max_length=8, max_summary=3).encode(MADE, tokens).notes
    assert notes == {"truncated": 3, "summaries truncated": 3}


class TestScores:
    def test_perfect_wrong_and_missing(self):
        assert TASK.score(MADE, [TASK.gold(e) for e in MADE])["rougeL"] == 100
        assert TASK.score(MADE, ["zebra"] * 3) == {"rouge1": 0, "rouge2": 0, "rougeL": 0}
        with pytest.raises(ValueError, match="no example"):
            TASK.score([], [])
        with pytest.raises(ValueError, match="0 predictions for 3 examples"):
            TASK.score(MADE, [])

    def test_by_hand(self):
        # 3 of 4 words right of 5: precision 3/4, recall 3/5; in order "the cat sat".
        example = Document("x", ("the cat sat down quietly",))
        scores = Summarization(stemming=False).score([example], ["the cat sat up"])
        assert scores["rouge1"] == pytest.approx(100 * 2 * 0.75 * 0.6 / 1.35)
        assert scores["rouge2"] == pytest.approx(100 * 2 * (2 / 3) * 0.5 / (2 / 3 + 0.5))
        assert scores["rougeL"] == pytest.approx(scores["rouge1"])

    def test_stems(self):
        example = Document("x", ("banks raising rates",))
        assert Summarization().score([example], ["bank raises rate"])["rouge1"] == 100
        assert Summarization(stemming=False).score([example], ["bank raises rate"])["rouge1"] == 0

    def test_several_references(self):
        example = Document("x", ("alpha beta", "gamma delta"))
        assert Summarization().score([example], ["gamma delta"])["rouge1"] == 100
        assert Summarization(references="mean").score([example], ["gamma delta"])["rouge1"] == 50

    def test_other_scripts(self):
        example = Document("x", ("बैंक ने दरें बढ़ाईं",))
        assert Summarization(words="spaced").score([example], ["बैंक ने दरें बढ़ाईं।"])["rouge1"] == 100
        assert Summarization(words="spaced").score([example], ["कुछ और"])["rouge1"] == 0


def test_encoder_alone_cannot_write(tmp_path):
    trunk, _ = load_trunk(save_checkpoint(tmp_path, "bart"))
    with pytest.raises(ValueError, match="needs a decoder.*decoder=True"):
        TASK.new_head(trunk)


def test_no_summary_to_learn_from(small):
    model, tokens, _, _ = small
    encoded = TASK.encode([Document("A text without a summary.")], tokens)
    batch = encoded.batch([0])
    with pytest.raises(ValueError, match="No document of the batch has a summary"):
        TASK.loss(model("news", batch), batch)
    assert isinstance(predict(model, "news", TASK, [Document("x")], encoded)[0][0], str)
