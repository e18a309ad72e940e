"""A number for a sentence or a pair (STS): mean squared error, Pearson and Spearman correlation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.functional import mse_loss

from gradaccord.data.encoded import Batch, Encoded
from gradaccord.data.examples import Text
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunks.trunk import Trunk
from gradaccord.tasks.kinds.sequences import (
    Layers,
    Pair,
    SentenceOrPair,
    encode_texts,
    sequence_head,
)
from gradaccord.tasks.task import Output, StartingFile


@dataclass(frozen=True)
class Regression(SentenceOrPair):
    """A value between `low` and `high`, learned by mean squared error on that scale.

    pair: "cross" encodes two sentences as one sequence, "separate" each alone (None: no pairs).
    bounded: the value is low + (high - low) sigmoid(output); otherwise it is the output itself, which
        starts at the middle of the scale.
    symmetric: a pair is read in both orders, as two rows: trained on both, predicted by their mean.
    head: "linear", "hidden" (the minBERT report's hidden layers) or a list of layer sizes.
    """

    pair: Pair | None = "cross"
    low: float = 0.0
    high: float = 5.0
    bounded: bool = False
    symmetric: bool = False
    head: Layers = "linear"
    max_length: int = 128
    dropout: float | None = None
    metric: Literal["pearson", "spearman"] = field(default="pearson", repr=False)

    kind = "regression"
    divergence = "regression"
    starting_file = StartingFile(
        "csv",
        ("columns: {first: sentence1, second: sentence2, label: score}", "low: 0", "high: 5"),
    )

    def __post_init__(self) -> None:
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(
                f"`low` is {self.low} and `high` is {self.high}: give two numbers, the lower one first."
            )
        if self.symmetric and self.pair is None:
            raise ValueError("`symmetric` is true and `pair` is None: only pairs have two orders.")

    def encode(self, examples: Sequence[Text], tokens: Tokens) -> Encoded:
        for example in examples:
            if example.label is not None and not self.low <= example.label <= self.high:
                raise ValueError(
                    f"Example {example.id!r} has the value {example.label}: it must be in "
                    f"{self.low:g}..{self.high:g}; set `low` and `high` if the scale is another."
                )
        read = examples
        if self.symmetric:
            read = [order for e in examples for order in (e, _swapped(e))]
        values = [math.nan if e.label is None else float(e.label) for e in read]
        rows = encode_texts(
            read, tokens, self.pair, self.max_length, torch.tensor(values, device="cpu")
        )
        if not self.symmetric:
            return rows
        return replace(
            rows,
            example=torch.arange(len(examples), device="cpu").repeat_interleave(2),
            notes={name: count // 2 for name, count in rows.notes.items()},
        )

    def new_head(self, trunk: Trunk) -> nn.Module:
        head = sequence_head(trunk, 1, self.head, self.dropout, pair=self.pair)
        if not self.bounded:
            # From 0 a small learning rate would take hundreds of steps to reach the scale at all.
            last = list(head.layers.modules())[-1]
            assert isinstance(last, nn.Linear)
            nn.init.constant_(last.bias, (self.low + self.high) / 2)
        return head

    def loss(self, output: Output, batch: Batch) -> tuple[torch.Tensor, int]:
        return mse_loss(self.values(output), batch["label"]), len(batch["label"])

    def values(self, output: Output) -> torch.Tensor:
        """[rows]: what the head gave, on the scale."""
        assert isinstance(output, torch.Tensor)
        raw = output.float().squeeze(-1)
        return self.low + (self.high - self.low) * raw.sigmoid() if self.bounded else raw

    def read(self, model: nn.Module, name: str, batch: Batch) -> list[Any]:
        return list(self.values(model(name, batch)).cpu())

    def decode(self, examples: Sequence[Text], encoded: Encoded, rows: Sequence[Any]) -> list[Any]:
        if not rows:
            return []
        values = torch.stack(list(rows)).double()
        sums = torch.zeros(len(examples), dtype=values.dtype, device="cpu").index_add_(
            0, encoded.example, values
        )
        return (sums / encoded.example.bincount(minlength=len(examples))).tolist()

    def gold(self, example: Text) -> float | None:
        return None if example.label is None else float(example.label)

    def score(self, examples: Sequence[Text], predictions: Sequence[Any]) -> dict[str, float]:
        gold, predicted = self.labelled(examples, predictions)
        for prediction in predicted:
            if isinstance(prediction, bool) or not isinstance(prediction, int | float):
                raise ValueError(f"A prediction is {prediction!r}: it must be a number.")
        return correlations(gold, predicted)

    def chance(self, examples: Sequence[Text], predictions: Sequence[Any]) -> dict[str, float]:
        """Numbers that have nothing to do with the truth."""
        return {"pearson": 0.0, "spearman": 0.0}

    def constant(self, examples: Sequence[Text], predictions: Sequence[Any]) -> list[Any]:
        """The mean of the truth, whose correlation counts as 0."""
        gold, _ = self.labelled(examples, predictions)
        return [sum(gold) / len(gold)] * len(examples)

    def standard_error(self, score: float, count: int) -> float:
        """The standard error of a correlation whose true value is 0."""
        return 100 / math.sqrt(max(count - 1, 1))

    def error(self, example: Text, gold: Any, predicted: Any, row: Any) -> float | None:
        return abs(float(predicted) - float(gold))

    def signed_error(self, gold: Any, predicted: Any) -> float | None:
        return float(predicted) - float(gold)


def _swapped(example: Text) -> Text:
    return replace(example, first=example.second or "", second=example.first)


def correlations(gold: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    """Pearson's and Spearman's correlation in percent, -100..100.

    0 where it is undefined: truth or predictions all the same, or not finite.
    """
    from scipy.stats import pearsonr, spearmanr

    if any(max(values) - min(values) <= 1e-12 * max(map(abs, values)) for values in (gold, predicted)):
        return {"pearson": 0.0, "spearman": 0.0}
    if not all(map(math.isfinite, [*gold, *predicted])):
        return {"pearson": 0.0, "spearman": 0.0}
    return {
        "pearson": 100 * float(pearsonr(gold, predicted).statistic),
        "spearman": 100 * float(spearmanr(gold, predicted).statistic),
    }
