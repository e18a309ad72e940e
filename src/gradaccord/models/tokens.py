"""From text to token sequences: what every task needs of a tokenizer, and Hugging Face's fast ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from gradaccord.data.files.bad_files import reason
from gradaccord.data.text.masking import Tokens as MaskTokens

Truncation = Literal["longest_first", "only_first", "only_second"]
E = TypeVar("E", bound=Exception)

_VOCABULARIES = ("tokenizer.json", "vocab*", "*.model")


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
        """The other windows of a text that was cut."""
        ...


class Tokens(Protocol):
    """What a task needs of a tokenizer."""

    pad: int
    size: int
    max_length: int  # the longest sequence that the model takes
    has_types: bool  # whether the model knows segments
    reads_pairs: bool  # whether two texts can be one sequence
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

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """Text again. special: with the special tokens."""
        ...

    def masking(self) -> MaskTokens:
        """What masking must know of the ids; an error if there is no mask token."""
        ...

    def save(self, folder: Path) -> None:
        """Write it where `load_trunk` finds it."""
        ...


class HuggingFaceTokens:
    """A fast Hugging Face tokenizer, used without going through Python lists of lists."""

    reads_pairs = True

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
        self._words = Tokenizer.from_str(_for_words(described))
        self._words.no_padding()
        self.pad = int(tokenizer.pad_token_id or 0)
        self.unknown: int | None = tokenizer.unk_token_id
        self.size = len(tokenizer)
        self.max_length = min(int(tokenizer.model_max_length), 1_000_000)
        self.has_types = "token_type_ids" in tokenizer.model_input_names
        # Special ids are not part of the vocabulary file, and masking depends on them.
        special = f"{sorted(tokenizer.all_special_ids)} {tokenizer.mask_token_id}"
        self.fingerprint = blake2b((described + special).encode(), digest_size=16).hexdigest()

    @classmethod
    def load(cls, name: str | Path) -> HuggingFaceTokens:
        """From a folder, or by a name that the hub knows."""
        from transformers import AutoTokenizer

        local = Path(name).is_dir()
        if local and not any(file for end in _VOCABULARIES for file in Path(name).glob(end)):
            # AutoTokenizer would make up an empty one.
            raise ValueError(
                f"{name} has no tokenizer.json: save it there with tokenizer.save_pretrained(folder)."
            )
        try:
            tokenizer = AutoTokenizer.from_pretrained(
                str(name), use_fast=True, trust_remote_code=False, local_files_only=local
            )
        except Exception as error:  # of the tokenizer's own kinds too, which have no common base
            raise ValueError(
                f"{name} has no tokenizer that can be read ({reason(error)}): save it "
                "there with tokenizer.save_pretrained(folder)."
            ) from error
        return cls(tokenizer)

    def masking(self) -> MaskTokens:
        """Mask token and special ids."""
        return MaskTokens.of(self.tokenizer)

    def save(self, folder: Path) -> None:
        """Write it as Hugging Face does."""
        self.tokenizer.save_pretrained(str(folder))

    def limited(self, max_length: int | None, *, types: bool) -> HuggingFaceTokens:
        """Itself, within the model's limits: its longest sequence, segments only if it has them."""
        if max_length is not None:
            self.max_length = min(self.max_length, max_length)
        self.has_types = self.has_types and types
        return self

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
        self._check_room(max_length, texts=1 if seconds is None else 2)
        self._backend.enable_truncation(max_length, stride=stride, strategy=truncation)
        inputs = list(firsts) if seconds is None else list(zip(firsts, seconds, strict=True))
        try:
            encodings: Sequence[Encoding] = self._backend.encode_batch(inputs)
        except TypeError as error:
            raise bad_text([*firsts, *(seconds or ())], error) from error
        return encodings

    def pieces(self, texts: Sequence[str]) -> Sequence[Encoding]:
        """All tokens of each text, however many, and no special ones."""
        self._backend.no_truncation()
        try:
            encodings: Sequence[Encoding] = self._backend.encode_batch(
                list(texts), add_special_tokens=False
            )
        except TypeError as error:
            raise bad_text(texts, error) from error
        return encodings

    def encode_words(
        self, sentences: Sequence[Sequence[str]], *, max_length: int
    ) -> Sequence[Encoding]:
        """Sentences that are split into words already."""
        self._check_room(max_length, texts=1)
        self._words.enable_truncation(max_length)
        try:
            encodings: Sequence[Encoding] = self._words.encode_batch(
                [list(words) for words in sentences], is_pretokenized=True
            )
        except TypeError as error:
            raise bad_text([word for words in sentences for word in words], error) from error
        return encodings

    def _check_room(self, max_length: int, *, texts: int) -> None:
        # Where the special tokens alone fill it, the tokenizer cuts nothing, without a word.
        least = self._backend.num_special_tokens_to_add(texts == 2) + texts
        if max_length < least:
            raise ValueError(
                f"`max_length` is {max_length}: it must be at least {least}: special tokens and "
                "one of each text."
            )

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """Text again. special: with the special tokens."""
        return str(self._backend.decode(list(ids), skip_special_tokens=not special))


def bad_text(texts: Sequence[Any], error: E) -> ValueError | E:
    """What is wrong with a text that the tokenizer does not take; the error itself if nothing is."""
    for text in texts:
        if not isinstance(text, str):
            return ValueError(f"A text is {text!r}: it must be a string.")
        try:
            text.encode()
        except UnicodeEncodeError as wrong:
            around = text[max(wrong.start - 20, 0) : wrong.end + 20]
            return ValueError(
                f"The text {around!r} holds half of a surrogate pair, not a character: repair it."
            )
    return error


def _for_words(described: str) -> str:
    """The tokenizer that gives a word alone the pieces that it has inside a sentence.

    Byte-level BPE (RoBERTa, BART) and sentencepiece mark a word by the space before it, which a word
    given alone does not have; their settings differ in whether they put it there.
    """
    whole = json.loads(described)

    def visit(part: object) -> None:
        if isinstance(part, list):
            for inner in part:
                visit(inner)
        elif isinstance(part, dict):
            if part.get("type") == "ByteLevel":
                part["add_prefix_space"] = True
            elif part.get("type") == "Metaspace":
                part["prepend_scheme"] = "always"
            for inner in part.values():
                visit(inner)

    visit(whole.get("pre_tokenizer"))
    return json.dumps(whole)
