"""Classes of sentences and of sentence pairs: cross-entropy, accuracy and macro F1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from gradaccord.data.encoded import Encoded
from gradaccord.data.examples import Text
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunk import Trunk
from gradaccord.tasks.class_logits import ClassLogits
from gradaccord.tasks.sequences import Layers, Pair, encode_texts, sequence_head


@dataclass(frozen=True)
class Classification(ClassLogits[Text]):
    """One class of several for a sentence or a pair.

    labels: the classes' names, in the order of their numbers.
    pair: "cross" encodes two sentences as one sequence, "separate" each alone (None: no pairs).
    head: "linear", "hidden" (the minBERT report's hidden layers) or a list of layer sizes.
    average: of the F1 that is reported beside accuracy.
    """

    labels: tuple[str, ...]
    pair: Pair | None = None
    head: Layers = "linear"
    max_length: int = 128
    dropout: float | None = None
    average: Literal["macro", "binary"] = "macro"

    kind: ClassVar[str] = "classification"
    metric: ClassVar[str] = "accuracy"

    def __post_init__(self) -> None:
        if len(self.labels) < 2 or len(set(self.labels)) < len(self.labels):
            raise ValueError(
                f"`labels` is {list(self.labels)}: name at least two classes, each of them once."
            )
        if self.average == "binary" and len(self.labels) != 2:
            raise ValueError(
                f"`average` is 'binary' and there are {len(self.labels)} classes: use 'macro'."
            )

    def encode(self, examples: Sequence[Text], tokens: Tokens) -> Encoded:
        labels = [-1 if e.label is None else int(e.label) for e in examples]
        for example, label in zip(examples, labels, strict=True):
            if example.label is not None and not (
                label == example.label and 0 <= label < len(self.labels)
            ):
                raise ValueError(
                    f"Example {example.id!r} has the label {example.label}: it must be one of "
                    f"0..{len(self.labels) - 1} ({', '.join(self.labels)})."
                )
        return encode_texts(
            examples, tokens, self.pair, self.max_length, torch.tensor(labels, device="cpu")
        )

    def new_head(self, trunk: Trunk) -> nn.Module:
        return sequence_head(trunk, len(self.labels), self.head, self.dropout, pair=self.pair)

    def decode(self, examples: Sequence[Text], encoded: Encoded, rows: Sequence[Any]) -> list[Any]:
        return [self.labels[int(logits.argmax())] for logits in rows]

    def gold(self, example: Text) -> str | None:
        return None if example.label is None else self.labels[int(example.label)]

    def score(self, examples: Sequence[Text], predictions: Sequence[Any]) -> dict[str, float]:
        from sklearn.metrics import accuracy_score, f1_score

        from gradaccord.tasks.predictions import labelled

        gold, predicted = labelled(self, examples, predictions)
        for prediction in predicted:
            if prediction not in self.labels:
                raise ValueError(
                    f"A prediction is {prediction!r}: it must be one of {', '.join(self.labels)}."
                )
        options: dict[str, Any] = {"average": self.average, "zero_division": 0.0}
        if self.average == "binary":
            options["pos_label"] = self.labels[-1]
        return {
            "accuracy": 100 * float(accuracy_score(gold, predicted)),
            "f1": 100 * float(f1_score(gold, predicted, **options)),
        }
