"""Texts tokenised a block at a time into flat arrays, so that memory stays that of the token ids."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from gradaccord.data.encoded import Ragged
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

    @property
    def ids(self) -> Ragged:
        """Of all sequences."""
        return self._ragged(self._ids)

    @property
    def types(self) -> Ragged | None:
        """Of all sequences, if the model knows segments."""
        return self._ragged(self._types) if self.has_types else None

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
