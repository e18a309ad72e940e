"""A tiny real BERT, two tasks of token sequences, and the trainer that the trainer tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import IterableDataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    TrainingArguments,
)

from gradaccord.integrations import AlignedTrainer

TASKS = ("a", "b")
SMALL: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 16,
    "num_labels": 3,
}


def bert(dropout: float = 0.1, kind: Any = BertForSequenceClassification, **options: Any) -> Any:
    torch.manual_seed(0)
    config = BertConfig(
        **SMALL | options, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
    )
    return kind(config)


def tagger(dropout: float = 0.0, **options: Any) -> Any:
    return bert(dropout, BertForTokenClassification, **options)


def sentences(n: int, seed: int, classes: int = 3, length: int = 6) -> list[dict[str, Any]]:
    """The class is what the first word says, so that there is something to learn."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(5, 50, (n, length), generator=generator)
    return [{"input_ids": row, "labels": int(row[0]) % classes} for row in tokens]


def tagged(n: int, seed: int, length: int = 8) -> list[dict[str, Any]]:
    """Every token has a tag, but for a different number of -100 in each sentence."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for i in range(n):
        tokens = torch.randint(5, 50, (length,), generator=generator)
        labels = tokens % 3
        labels[length - i % (length - 1) :] = -100
        rows.append({"input_ids": tokens, "labels": labels})
    return rows


class Streamed(IterableDataset):
    """Examples that can only be gone through."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)


def data(n: int = 24) -> dict[str, list[dict[str, Any]]]:
    return {"a": sentences(n, 1), "b": sentences(2 * n, 2)}


def arguments(folder: Path | str, **options: Any) -> TrainingArguments:
    given: dict[str, Any] = {
        "per_device_train_batch_size": 4,
        "max_steps": 6,
        "learning_rate": 1e-3,
        "use_cpu": True,
        "report_to": [],
        "disable_tqdm": True,
        "save_strategy": "no",
        "logging_strategy": "no",
        "dataloader_pin_memory": False,
    }
    return TrainingArguments(str(folder), **given | options)


def trainer(
    folder: Path | str,
    model: Any = None,
    tasks: Any = None,
    kind: Any = AlignedTrainer,
    trainer_options: Any = None,
    **options: Any,
) -> Any:
    """A trainer; `options` are those of TrainingArguments."""
    return kind(
        bert() if model is None else model,
        arguments(folder, **options),
        train_dataset=data() if tasks is None else tasks,
        **trainer_options or {},
    )


def weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def assert_same(
    found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], tolerance: float = 0.0
) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=tolerance, atol=tolerance, msg=name)


def moved(found: dict[str, torch.Tensor], before: dict[str, torch.Tensor]) -> bool:
    return any(not torch.equal(found[name], before[name]) for name in found)


CODE = [f"def f{i}(x): return x + {i}" for i in range(12)]
CHAT = [f"hello number {i} and how are you today" for i in range(20)]
