"""Small models and losses on which SMART is checked."""

from __future__ import annotations

from functools import partial

import torch
from torch.nn import functional as F
from toy import batch


def wrapped(smart, model, task="a", seed=0, **options):
    tokens, labels = batch(seed)
    loss = partial(F.cross_entropy, target=labels)
    return smart.loss(partial(model, tokens, task), loss, task=task, **options)


def plain(model, task="a", seed=0):
    tokens, labels = batch(seed)
    return F.cross_entropy(model(tokens, task), labels)


def tiny_bert(hidden=16):
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=60,
        hidden_size=hidden,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=2 * hidden,
        num_labels=3,
    )
    return BertForSequenceClassification(config)


def text():
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 60, (6, 7), generator=generator)
    ids[0, 4:] = 0
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "labels": torch.arange(6) % 3,
    }
