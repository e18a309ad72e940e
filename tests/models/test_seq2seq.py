"""Encoder-decoders as trunks: their loss, their encoder shared, what cannot be loaded."""

from __future__ import annotations

import pytest
import torch
from small_models import save_checkpoint

from gradaccord.data.examples import Document, Text
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.tasks.kinds.classification import Classification
from gradaccord.tasks.kinds.summarization import Summarization

pytest.importorskip("transformers")


MADE = [
    Document("The bank raised its rates on Tuesday and the dollar rose.", ("bank raises rates",), "0"),
    Document("A brown fox was seen in the park by children on Monday.", ("fox seen in park",), "1"),
    Document("Profits fell, the company said, and its shares dropped.", ("company profits fall",), "2"),
]


TASK = Summarization(max_summary=32, beams=2)


def trained(folder, examples, architecture="pegasus", steps=100, batch_size=32, width=64):
    texts = [e.text for e in examples] + [s for e in examples for s in e.summaries]
    save_checkpoint(folder, architecture, texts=texts, vocabulary=900, width=width, depth=1, head=True)
    trunk, tokens = load_trunk(folder, decoder=True)
    model = MultiTaskModel(trunk, {"news": TASK.new_head(trunk)})
    encoded = TASK.encode(examples, tokens)
    model.eval()  # no dropout: the point is to learn by heart
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        rows = torch.randperm(len(examples), generator=generator)[:batch_size].tolist()
        batch = encoded.batch(rows)
        loss, items = TASK.loss(model("news", batch), batch)
        assert items > 0
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, tokens, encoded, loss.item()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("small"), MADE, "t5", steps=80, batch_size=3, width=32)


def test_loss_is_that_of_the_model_itself(small):
    from gradaccord.models.trunks.seq2seq import documents, summary_labels

    model, _, encoded, _ = small
    batch = encoded.batch([0, 1, 2])
    with torch.no_grad():
        ours, _ = TASK.loss(model("news", batch), batch)
        theirs = model.trunk.model(**documents(batch), labels=summary_labels(batch)).loss
    assert torch.allclose(ours, theirs, rtol=1e-6)


def test_another_task_shares_the_encoder(small):
    model, tokens, _, _ = small
    task = Classification(("finance", "animals"))
    examples = [Text(e.text, label=i % 2, id=e.id) for i, e in enumerate(MADE)]
    both = MultiTaskModel(model.trunk, {"news": TASK.new_head(model.trunk), "topic":
                                        task.new_head(model.trunk)})  # fmt: skip
    batch = task.encode(examples, tokens).batch([0, 1, 2])
    loss, _ = task.loss(both("topic", batch), batch)
    loss.backward()
    touched = {
        n.split(".")[2] for n, p in both.named_parameters() if p.grad is not None and "trunk" in n
    }
    assert touched == {"shared", "encoder"}
    both.zero_grad()


def test_encoder_alone_cannot_be_loaded_with_a_decoder(tmp_path):
    with pytest.raises(ValueError, match="cannot be loaded"):
        load_trunk(save_checkpoint(tmp_path, "bert"), decoder=True)
