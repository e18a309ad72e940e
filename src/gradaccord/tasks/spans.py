"""From the characters of a word to its tokens, and a head that reads the vectors of two such spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from gradaccord.models.heads import layers
from gradaccord.models.tokens import Encoding
from gradaccord.models.trunk import Batch, Trunk

# What a span becomes of which truncation left nothing: the first token, which sees the whole sequence.
LOST = (0, 1)


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
        u = span_mean(states.tokens, batch["first_span"])
        v = span_mean(states.tokens, batch["second_span"])
        output: torch.Tensor = self.layers(torch.cat([states.pooled, u, v, (u - v).abs()], -1))
        return output


def span_mean(tokens: torch.Tensor, spans: torch.Tensor) -> torch.Tensor:
    """Means over [start, end) of each row: [rows, length, hidden], [rows, 2] -> [rows, hidden]."""
    place = torch.arange(tokens.shape[1], device=tokens.device)
    inside = (place >= spans[:, :1]) & (place < spans[:, 1:])
    weights = inside.to(tokens.dtype) / inside.sum(1, keepdim=True).to(tokens.dtype)
    return torch.einsum("rl,rlh->rh", weights, tokens)
