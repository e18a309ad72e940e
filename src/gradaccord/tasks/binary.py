"""What the yes-or-no kinds share: two classes, cross-entropy, predictions that are true or false."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import torch

from gradaccord.data.encoded import Encoded
from gradaccord.tasks.class_logits import ClassLogits
from gradaccord.tasks.task import Task


class Answered(Protocol):
    """An example whose label is 0 (no), 1 (yes) or None (not labelled)."""

    @property
    def label(self) -> int | None: ...
    @property
    def id(self) -> str: ...


B = TypeVar("B", bound=Answered)


class Binary(ClassLogits[B]):
    """Base class: two logits a row, one row an example."""

    metric: ClassVar[str] = "accuracy"

    def decode(self, examples: Sequence[B], encoded: Encoded, rows: Sequence[Any]) -> list[Any]:
        return [bool(logits[1] > logits[0]) for logits in rows]

    def gold(self, example: B) -> bool | None:
        return None if example.label is None else bool(example.label)

    def score(self, examples: Sequence[B], predictions: Sequence[Any]) -> dict[str, float]:
        from sklearn.metrics import accuracy_score

        gold, predicted = answers(self, examples, predictions)
        return {"accuracy": 100 * float(accuracy_score(gold, predicted))}


def binary_labels(examples: Sequence[B]) -> torch.Tensor:
    """The `label` column, -1 where there is none; anything but 0 and 1 is an error."""
    for example in examples:
        if example.label not in (None, 0, 1):
            raise ValueError(
                f"Example {example.id!r} has the label {example.label}: it must be 0 or 1."
            )
    return torch.tensor([-1 if e.label is None else int(e.label) for e in examples], device="cpu")


def answers(
    task: Task[B], examples: Sequence[B], predictions: Sequence[Any]
) -> tuple[list[bool], list[bool]]:
    """Truth and prediction of every labelled example; a prediction that is no answer is an error."""
    from gradaccord.tasks.predictions import labelled

    gold, predicted = labelled(task, examples, predictions)
    for prediction in predicted:
        if prediction not in (0, 1):
            raise ValueError(f"A prediction is {prediction!r}: it must be true or false.")
    return gold, [bool(prediction) for prediction in predicted]
