"""Predictions beside the truth: checked to fit, before any metric sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradaccord.tasks.task import Task


def labelled(
    task: Task[Any], examples: Sequence[Any], predictions: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Truth and prediction of every labelled example, in order."""
    if not len(examples):
        raise ValueError(f"There is no example to score a {task.kind} task on.")
    if len(predictions) != len(examples):
        raise ValueError(
            f"There are {len(predictions)} predictions for {len(examples)} examples: give one each."
        )
    pairs = [(task.gold(e), p) for e, p in zip(examples, predictions, strict=True)]
    pairs = [(gold, prediction) for gold, prediction in pairs if gold is not None]
    if not pairs:
        raise ValueError(f"None of the {len(examples)} examples is labelled: score another split.")
    gold, predicted = zip(*pairs, strict=True)
    return list(gold), list(predicted)
