"""From text to token sequences: what every task asks of a tokenizer, and Hugging Face's fast ones."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, Protocol

Truncation = Literal["longest_first", "only_first", "only_second"]


class Encoding(Protocol):
    """One token sequence; `tokenizers.Encoding` is one."""

    @property
    def ids(self) -> list[int]: ...  # noqa: D102
    @property
    def type_ids(self) -> list[int]: ...  # noqa: D102
    @property
    def offsets(self) -> list[tuple[int, int]]:
        """Start and end of each token in the characters of its text."""
        ...

    @property
    def sequence_ids(self) -> list[int | None]:
        """0 for tokens of the first text, 1 of the second, None for special tokens."""
        ...

    @property
    def word_ids(self) -> list[int | None]:
        """The number of the word that a token is a piece of (pre-split input)."""
        ...

    @property
    def overflowing(self) -> Sequence[Encoding]:
        """The further windows of a text that was cut."""
        ...


class Tokens(Protocol):
    """What a task needs of a tokenizer."""

    pad: int
    size: int
    max_length: int  # the longest sequence that the model takes
    has_types: bool  # whether the model knows segments
    fingerprint: str  # changes whenever token ids may

    def encode(
        self,
        firsts: Sequence[str],
        seconds: Sequence[str] | None = None,
        *,
        max_length: int,
        truncation: Truncation = "longest_first",
        stride: int = 0,
    ) -> Sequence[Encoding]:
        """One sequence per text or pair; what was cut is in `overflowing`, overlapping by stride."""
        ...

    def encode_words(
        self, sentences: Sequence[Sequence[str]], *, max_length: int
    ) -> Sequence[Encoding]:
        """Sentences that are split into words already; `word_ids` says which is which."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text again, without special tokens."""
        ...


class HuggingFaceTokens:
    """A fast Hugging Face tokenizer, spoken to without the detour through Python lists of lists."""

    def __init__(self, tokenizer: Any) -> None:
        from tokenizers import Tokenizer

        if getattr(tokenizer, "backend_tokenizer", None) is None:
            raise ValueError(
                f"`tokenizer` ({type(tokenizer).__name__}) is not a fast one: load it with "
                "AutoTokenizer.from_pretrained(..., use_fast=True)."
            )
        self.tokenizer = tokenizer
        described = tokenizer.backend_tokenizer.to_str()
        self._backend = Tokenizer.from_str(described)
        self._backend.no_padding()
        self.pad = int(tokenizer.pad_token_id or 0)
        self.size = len(tokenizer)
        self.max_length = min(int(tokenizer.model_max_length), 1_000_000)
        self.has_types = "token_type_ids" in tokenizer.model_input_names
        self.fingerprint = blake2b(described.encode(), digest_size=16).hexdigest()

    @classmethod
    def load(cls, name: str | Path) -> HuggingFaceTokens:
        """From a folder, or by a name that the hub knows."""
        from transformers import AutoTokenizer

        return cls(AutoTokenizer.from_pretrained(str(name), use_fast=True))

    def encode(
        self,
        firsts: Sequence[str],
        seconds: Sequence[str] | None = None,
        *,
        max_length: int,
        truncation: Truncation = "longest_first",
        stride: int = 0,
    ) -> Sequence[Encoding]:
        """One sequence per text or pair."""
        self._backend.enable_truncation(max_length, stride=stride, strategy=truncation)
        inputs = list(firsts) if seconds is None else list(zip(firsts, seconds, strict=True))
        encodings: Sequence[Encoding] = self._backend.encode_batch(inputs)
        return encodings

    def encode_words(
        self, sentences: Sequence[Sequence[str]], *, max_length: int
    ) -> Sequence[Encoding]:
        """Sentences that are split into words already."""
        self._backend.enable_truncation(max_length)
        encodings: Sequence[Encoding] = self._backend.encode_batch(
            [list(words) for words in sentences], is_pretokenized=True
        )
        return encodings

    def decode(self, ids: Sequence[int]) -> str:
        """Text again, without special tokens."""
        return str(self._backend.decode(list(ids), skip_special_tokens=True))
