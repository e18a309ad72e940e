"""What kinds with classes share: one logit per class, cross-entropy, names of classes, yes or no."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from gradaccord.data.encoded import Batch, Encoded
from gradaccord.tasks.task import E, Output, Task


class ClassLogits(Task[E]):
    """Base class: the head gives [rows, classes]; the truth is the `label` column."""

    divergence: ClassVar[str | None] = "classification"

    def loss(self, output: Output, batch: Batch) -> tuple[torch.Tensor, int]:
        assert isinstance(output, torch.Tensor)
        return cross_entropy(output.float(), batch["label"]), len(batch["label"])

    def read(self, model: nn.Module, name: str, batch: Batch) -> list[Any]:
        logits: torch.Tensor = model(name, batch)
        return list(logits.float().cpu())

    def probabilities(self, rows: Sequence[Any]) -> list[dict[str, float]] | None:
        names = self.class_names
        if not names or any(len(row) != len(names) for row in rows):
            return None
        shares = (row.double().softmax(-1).tolist() for row in rows)
        return [dict(zip(names, own, strict=True)) for own in shares]

    def error(self, example: E, gold: Any, predicted: Any, row: Any) -> float | None:
        """The loss, where the example is one row."""
        label = getattr(example, "label", None)
        if isinstance(row, torch.Tensor) and row.ndim == 1 and len(row) > 1 and isinstance(label, int):
            return float(-row.double().log_softmax(-1)[label])
        return super().error(example, gold, predicted, row)


class NamedClasses(ClassLogits[E]):
    """Base class: classes with names; a prediction is one of the names."""

    labels: tuple[str, ...]
    average: Literal["macro", "binary"] = "macro"  # of the F1
    metric = "accuracy"

    def decode(self, examples: Sequence[E], encoded: Encoded, rows: Sequence[Any]) -> list[Any]:
        return [self.labels[int(logits.argmax())] for logits in rows]

    def gold(self, example: Any) -> str | None:
        return None if example.label is None else self.labels[int(example.label)]

    def score(self, examples: Sequence[E], predictions: Sequence[Any]) -> dict[str, float]:
        gold, predicted = self.labelled(examples, predictions)
        places = {label: place for place, label in enumerate(self.labels)}
        for prediction in predicted:
            if prediction not in places:
                raise ValueError(
                    f"A prediction is {prediction!r}: it must be one of {', '.join(self.labels)}."
                )
        size = len(places)
        cells = [places[g] * size + places[p] for g, p in zip(gold, predicted, strict=True)]
        counts = torch.bincount(torch.tensor(cells, device="cpu"), minlength=size * size)
        found = self.scores_of_counts(counts.view(1, size, size))
        return {metric: float(value) for metric, value in found.items()}

    def chance(self, examples: Sequence[E], predictions: Sequence[Any]) -> dict[str, float]:
        """A guess is right in 1 / k cases; a class with share s has precision s and recall 1 / k."""
        gold, _ = self.labelled(examples, predictions)
        shares = [gold.count(label) / len(gold) for label in self.labels]
        of_class = [f1(share, 1 / len(shares)) for share in shares]
        mean = of_class[-1] if self.average == "binary" else sum(of_class) / len(of_class)
        return {"accuracy": 100 / len(self.labels), "f1": 100 * mean}

    def scores_of_counts(self, counts: torch.Tensor) -> dict[str, torch.Tensor]:
        """Scores of many tables at once; a class that a table does not have is left out of its mean."""
        counts = counts.double()
        right = counts.diagonal(dim1=1, dim2=2)
        either = counts.sum(1) + counts.sum(2)  # predicted and true
        of_class = 2 * right / either.clamp(min=1)
        mean = of_class.sum(1) / (either > 0).sum(1).clamp(min=1)
        return {
            "accuracy": 100 * right.sum(1) / counts.sum((1, 2)),
            "f1": 100 * (of_class[:, -1] if self.average == "binary" else mean),
        }


def f1(precision: float, recall: float) -> float:
    """The harmonic mean of precision and recall; 0 if both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def share_of_equals(gold: Sequence[Any], predicted: Sequence[Any]) -> float:
    """How many predictions are right, 0 to 1."""
    return sum(bool(g == p) for g, p in zip(gold, predicted, strict=True)) / len(gold)


class Answered(Protocol):
    """An example whose label is 0 (no), 1 (yes) or None (not labelled)."""

    @property
    def label(self) -> int | None: ...
    @property
    def id(self) -> str: ...


B = TypeVar("B", bound=Answered)


class Binary(ClassLogits[B]):
    """Base class: true or false, from two logits per row, one row per example."""

    metric = "accuracy"
    class_names = ("false", "true")

    def decode(self, examples: Sequence[B], encoded: Encoded, rows: Sequence[Any]) -> list[Any]:
        return [bool(logits[1] > logits[0]) for logits in rows]

    def gold(self, example: B) -> bool | None:
        return None if example.label is None else bool(example.label)

    def answers(
        self, examples: Sequence[B], predictions: Sequence[Any]
    ) -> tuple[list[bool], list[bool]]:
        """Truth and prediction of every labelled example; each prediction must be an answer."""
        gold, predicted = self.labelled(examples, predictions)
        for prediction in predicted:
            if prediction not in (0, 1):
                raise ValueError(f"A prediction is {prediction!r}: it must be true or false.")
        return gold, [bool(prediction) for prediction in predicted]

    def score(self, examples: Sequence[B], predictions: Sequence[Any]) -> dict[str, float]:
        return {"accuracy": 100 * share_of_equals(*self.answers(examples, predictions))}

    def chance(self, examples: Sequence[B], predictions: Sequence[Any]) -> dict[str, float]:
        return {"accuracy": 50.0}

    def class_pairs(self, gold: Any, predicted: Any) -> list[tuple[str, str]]:
        return [(self.class_names[gold], self.class_names[bool(predicted)])]


def binary_labels(examples: Sequence[B]) -> torch.Tensor:
    """The `label` column, -1 where there is none; anything but 0 and 1 is an error."""
    for example in examples:
        if example.label not in (None, 0, 1):
            raise ValueError(
                f"Example {example.id!r} has the label {example.label}: it must be 0 or 1."
            )
    return torch.tensor([-1 if e.label is None else int(e.label) for e in examples], device="cpu")
