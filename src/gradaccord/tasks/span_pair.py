"""What the kinds share that ask about two marked spans of a text or of a pair of texts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from gradaccord.data.encoded import Encoded
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunk import Trunk
from gradaccord.tasks.binary import B, Binary, binary_labels
from gradaccord.tasks.sequences import Layers, layer_sizes
from gradaccord.tasks.spans import SpanFinder, SpanPairHead, check_span
from gradaccord.tasks.tokenising import Tokenised, encodings


class Marked(NamedTuple):
    """One of the two spans: the example's field, the text that it is in (0 or 1), its characters."""

    name: str
    text: int
    span: tuple[int, int]


@dataclass(frozen=True)
class SpanPair(Binary[B]):
    """Base class: one sequence a row, whose head sees the pooled vector and those of the spans.

    head: "linear", "hidden" or a list of layer sizes. Spans that truncation cut are counted.
    """

    head: Layers = "linear"
    max_length: int = 128
    dropout: float | None = None

    @abstractmethod
    def texts(self, example: B) -> tuple[str, ...]:
        """The text, or the pair."""

    @abstractmethod
    def marked(self, example: B) -> tuple[Marked, Marked]:
        """The two spans."""

    def encode(self, examples: Sequence[B], tokens: Tokens) -> Encoded:
        label = binary_labels(examples)
        texts = [self.texts(example) for example in examples]
        for example, parts in zip(examples, texts, strict=True):
            for name, text, span in self.marked(example):
                check_span(example.id, name, parts[text], span)
        found, finders = Tokenised(tokens.has_types), (SpanFinder(), SpanFinder())
        read = encodings(
            tokens,
            [parts[0] for parts in texts],
            [parts[1] for parts in texts] if texts and len(texts[0]) == 2 else None,
            max_length=self.max_length,
        )
        for example, encoding in zip(examples, read, strict=True):
            found.add(encoding)
            for finder, (_, text, span) in zip(finders, self.marked(example), strict=True):
                finder.find(encoding, text, span)
        return Encoded(
            ids=found.ids,
            types=found.types,
            first=torch.arange(len(examples) + 1, device="cpu"),
            example=torch.arange(len(examples), device="cpu"),
            pad=tokens.pad,
            columns={
                "label": label,
                "first_span": finders[0].column(),
                "second_span": finders[1].column(),
            },
            notes={
                "truncated": found.truncated,
                "spans cut": sum(finder.cut for finder in finders),
            },
        )

    def new_head(self, trunk: Trunk) -> nn.Module:
        return SpanPairHead(
            trunk.hidden,
            2,
            layer_sizes=layer_sizes(self.head, trunk.hidden, pair=True),
            dropout=trunk.dropout if self.dropout is None else self.dropout,
        )
