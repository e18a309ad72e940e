"""Texts tokenised a block at a time into flat arrays, so that memory holds only the token ids."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from gradaccord.data.encoded import Encoded, Ragged
from gradaccord.models.tokens import Encoding, Tokens

# Sequences tokenised at once: a tokenizer's own objects take some 100 times the memory of the ids.
BLOCK = 2048


@dataclass
class Tokenised:
    """Token ids and segments of sequences, one after another; `truncated` counts those cut."""

    has_types: bool
    truncated: int = 0
    _ids: array[int] = field(default_factory=lambda: array("i"))
    _types: array[int] = field(default_factory=lambda: array("i"))
    _starts: list[int] = field(default_factory=lambda: [0])

    def add(self, encoding: Encoding) -> None:
        """Put a sequence at the end."""
        self._ids.extend(encoding.ids)
        if self.has_types:
            self._types.extend(encoding.type_ids)
        self._starts.append(len(self._ids))
        self.truncated += bool(encoding.overflowing)

    def encoded(
        self,
        pad: int,
        columns: dict[str, torch.Tensor],
        *,
        first: torch.Tensor | None = None,
        example: torch.Tensor | None = None,
        notes: Mapping[str, int] | None = None,
    ) -> Encoded:
        """As rows: one sequence a row (else `first`), one row an example (else `example`)."""
        rows = len(self._starts) - 1 if first is None else len(first) - 1
        return Encoded(
            ids=self._ragged(self._ids),
            types=self._ragged(self._types) if self.has_types else None,
            first=torch.arange(rows + 1, device="cpu") if first is None else first,
            example=torch.arange(rows, device="cpu") if example is None else example,
            columns=columns,
            notes={"truncated": self.truncated, **(notes or {})},
            pad=pad,
        )

    def _ragged(self, values: array[int]) -> Ragged:
        flat = torch.empty(0, dtype=torch.int32, device="cpu")
        if values:
            flat = torch.frombuffer(values, dtype=torch.int32).clone()
        return Ragged(flat, torch.tensor(self._starts, device="cpu"))


def encodings(
    tokens: Tokens, firsts: Sequence[str], seconds: Sequence[str] | None = None, *, max_length: int
) -> Iterator[Encoding]:
    """One sequence per text or pair, in order; no more than the model takes."""
    length = min(max_length, tokens.max_length)
    for start in range(0, len(firsts), BLOCK):
        end = start + BLOCK
        part = None if seconds is None else seconds[start:end]
        yield from tokens.encode(firsts[start:end], part, max_length=length)


def tokenised(
    tokens: Tokens, firsts: Sequence[str], seconds: Sequence[str] | None = None, *, max_length: int
) -> Tokenised:
    """All of them."""
    found = Tokenised(tokens.has_types)
    for encoding in encodings(tokens, firsts, seconds, max_length=max_length):
        found.add(encoding)
    return found
