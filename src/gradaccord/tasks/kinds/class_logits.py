"""What the kinds with classes share: one logit a class, cross-entropy against the `label` column."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from gradaccord.data.encoded import Batch
from gradaccord.tasks.task import E, Output, Task


class ClassLogits(Task[E]):
    """Base class: the head gives [rows, classes]."""

    def loss(self, output: Output, batch: Batch) -> tuple[torch.Tensor, int]:
        assert isinstance(output, torch.Tensor)
        return cross_entropy(output.float(), batch["label"]), len(batch["label"])

    def read(self, model: nn.Module, name: str, batch: Batch) -> list[Any]:
        logits: torch.Tensor = model(name, batch)
        return list(logits.float().cpu())
