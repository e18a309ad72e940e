"""Classes of sentences and of sentence pairs: cross-entropy, accuracy and macro F1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import nn

from gradaccord.data.encoded import Encoded
from gradaccord.data.examples import Text
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunks.trunk import Trunk
from gradaccord.tasks.kinds.class_logits import NamedClasses
from gradaccord.tasks.kinds.sequences import (
    Layers,
    Pair,
    SentenceOrPair,
    encode_texts,
    sequence_head,
)
from gradaccord.tasks.task import StartingFile


@dataclass(frozen=True)
class Classification(SentenceOrPair, NamedClasses[Text]):
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
    metric: Literal["accuracy", "f1"] = field(default="accuracy", repr=False)

    kind = "classification"
    starting_file = StartingFile(
        "csv", ("columns: {first: sentence, label: label}", "labels: [negative, positive]")
    )

    def __post_init__(self) -> None:
        if len(self.labels) < 2 or len(set(self.labels)) < len(self.labels):
            shown = str(list(self.labels))
            shown = shown if len(shown) <= 200 else f"{shown[:200]}..."
            raise ValueError(f"`labels` is {shown}: name at least two classes, each of them once.")
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
