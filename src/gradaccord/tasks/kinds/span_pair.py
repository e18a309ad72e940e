"""What kinds that ask about two marked spans share: from characters to tokens, and the head."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import nn

from gradaccord.data.encoded import Batch, Encoded
from gradaccord.models.heads import layers
from gradaccord.models.tokens import Encoding, Tokens
from gradaccord.models.trunks.trunk import Trunk
from gradaccord.tasks.kinds.class_logits import B, Binary, binary_labels
from gradaccord.tasks.kinds.sequences import Layers, layer_sizes
from gradaccord.tasks.tokenising import Tokenised, encodings

# What a span becomes of which truncation left nothing: the first token, which sees the whole sequence.
LOST = (0, 1)
SPANS = ("first_span", "second_span")  # columns


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
    metric: Literal["accuracy"] = field(default="accuracy", repr=False)

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
        spans = {name: finder.column() for name, finder in zip(SPANS, finders, strict=True)}
        cut = sum(finder.cut for finder in finders)
        return found.encoded(tokens.pad, {"label": label, **spans}, notes={"spans cut": cut})

    def new_head(self, trunk: Trunk) -> nn.Module:
        return SpanPairHead(
            trunk.hidden,
            2,
            layer_sizes=layer_sizes(self.head, trunk.hidden, pair=True),
            dropout=trunk.dropout if self.dropout is None else self.dropout,
        )


@dataclass
class SpanFinder:
    """Token spans [start, end) of character spans; those that truncation cut are counted."""

    cut: int = 0
    spans: list[tuple[int, int]] = field(default_factory=list)

    def find(self, encoding: Encoding, sequence: int, span: tuple[int, int]) -> None:
        """Add the tokens of text number `sequence` that have a character of the span."""
        begin, end = span
        of_text = [
            (place, start, stop)
            for place, (owner, (start, stop)) in enumerate(
                zip(encoding.sequence_ids, encoding.offsets, strict=True)
            )
            if owner == sequence and stop > start
        ]
        places = [place for place, start, stop in of_text if start < end and stop > begin]
        self.spans.append((places[0], places[-1] + 1) if places else LOST)
        # What truncation takes lies behind what it leaves: of a span it takes the end, or all.
        shortened = bool(encoding.overflowing and of_text) and of_text[-1][2] < end
        self.cut += not places or shortened

    def column(self) -> torch.Tensor:
        """[spans, 2]."""
        return torch.tensor(self.spans, dtype=torch.int64, device="cpu").reshape(-1, 2)


def check_span(id: str, name: str, text: str, span: Sequence[int]) -> None:
    """A span that is not in its text is a ValueError with the example's id."""
    if len(span) != 2 or not 0 <= span[0] < span[1] <= len(text):
        raise ValueError(
            f"Example {id!r} has the {name} {tuple(span)} in a text of {len(text)} characters: it "
            "must be (start, end) with 0 <= start < end <= length."
        )


class SpanPairHead(nn.Module):
    """Reads the pooled vector, the mean vectors u and v of two spans, and |u - v|."""

    def __init__(
        self, hidden: int, outputs: int, *, layer_sizes: Sequence[int] = (), dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.layers = layers(4 * hidden, outputs, layer_sizes, dropout)

    def forward(self, trunk: Trunk, batch: Batch) -> torch.Tensor:
        """[rows, outputs]."""
        states = trunk(batch)
        u, v = (span_mean(states.tokens, batch[name]) for name in SPANS)
        output: torch.Tensor = self.layers(torch.cat([states.pooled, u, v, (u - v).abs()], -1))
        return output


def span_mean(tokens: torch.Tensor, spans: torch.Tensor) -> torch.Tensor:
    """Means over [start, end) of each row: [rows, length, hidden], [rows, 2] -> [rows, hidden]."""
    place = torch.arange(tokens.shape[1], device=tokens.device)
    inside = (place >= spans[:, :1]) & (place < spans[:, 1:])
    weights = inside.to(tokens.dtype) / inside.sum(1, keepdim=True).to(tokens.dtype)
    return torch.einsum("rl,rlh->rh", weights, tokens)
