"""Encoder-decoders that learn a few summaries by heart."""

from __future__ import annotations

import torch
from small_models import save_checkpoint

from gradaccord.data.examples import Document
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.tasks.kinds.summarization import Summarization

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
