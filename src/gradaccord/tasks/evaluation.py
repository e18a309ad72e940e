"""Run a model over a split: predictions, scores and loss, whatever the kind of task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gradaccord.data.encoded import Batch, Encoded
from gradaccord.tasks.task import Task


@dataclass(frozen=True)
class Evaluation:
    """How a model does on a split. `scores` are in percent."""

    scores: dict[str, float]
    predictions: list[Any]
    rows: list[Any]  # what `Task.read` gave of every row, in order


def evaluate(
    model: nn.Module,
    name: str,
    task: Task[Any],
    examples: Sequence[Any],
    encoded: Encoded,
    *,
    batch_size: int = 32,
    progress: Callable[[int], None] = lambda rows: None,
) -> Evaluation:
    """Predict and score. Rows go in order of length, so that little is padded; dropout is off."""
    predictions, rows = predict(
        model, name, task, examples, encoded, batch_size=batch_size, progress=progress
    )
    return Evaluation(task.score(examples, predictions), predictions, rows)


def predict(
    model: nn.Module,
    name: str,
    task: Task[Any],
    examples: Sequence[Any],
    encoded: Encoded,
    *,
    batch_size: int = 32,
    progress: Callable[[int], None] = lambda rows: None,
) -> tuple[list[Any], list[Any]]:
    """A prediction for each example, and what was read of each row."""
    device = next(model.parameters()).device
    order = encoded.lengths.argsort(descending=True, stable=True).tolist()
    rows: list[Any] = [None] * len(encoded)
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            for start in range(0, len(order), batch_size):
                places = order[start : start + batch_size]
                batch: Batch = {k: v.to(device) for k, v in encoded.batch(places).items()}
                for place, row in zip(places, task.read(model, name, batch), strict=True):
                    rows[place] = row
                progress(len(places))
    finally:
        model.train(was_training)
    return task.decode(examples, encoded, rows), rows
