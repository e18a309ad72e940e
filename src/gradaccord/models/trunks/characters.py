"""A small convolutional encoder of characters, as the trunk of the `cldr` names, and its tokens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import dropout as drop
from torch.nn.functional import relu

from gradaccord.data.text.cldr import Vocabulary
from gradaccord.data.text.masking import Tokens as MaskTokens
from gradaccord.models.tokens import Encoding, Truncation
from gradaccord.models.trunks.execution import checkpoint_blocks
from gradaccord.models.trunks.huggingface import checked_pooling
from gradaccord.models.trunks.trunk import Batch, Pooling, States, Trunk, save_own

MODEL_TYPE = "gradaccord-characters"
VOCABULARY = "characters.json"


class CharacterEncoder(nn.Module):
    """Token numbers [N, L], 0 for padding, to one vector per character [N, L, width].

    Residual convolutions, so that the cost is linear in the length and a second derivative exists.
    Dropout drops whole characters: to draw a random number for every value would take a third as
    long as the convolution itself.
    """

    def __init__(
        self, characters: int, *, width: int = 96, depth: int = 2, reach: int = 3, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.width = width
        self.dropout = dropout
        self.embedding = nn.Embedding(characters, width, padding_idx=0)
        self.blocks = nn.ModuleList(_Block(width, reach) for _ in range(depth))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Padding gets the zero vector, and no character's vector depends on how much there is."""
        present = (tokens != 0).unsqueeze(-1).to(self.embedding.weight.dtype)
        hidden: torch.Tensor = self.embedding(tokens)
        hidden = hidden * drop(present, self.dropout, self.training)
        for block in self.blocks:
            hidden = block(hidden, present)
        return hidden


class _Block(nn.Module):
    """h + relu(conv(norm(h))) over `reach` neighbours on either side, padding kept at zero."""

    def __init__(self, width: int, reach: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.convolution = nn.Conv1d(width, width, 2 * reach + 1, padding=reach)

    def forward(self, hidden: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        normed = self.norm(hidden) * present
        changed = relu(self.convolution(normed.transpose(1, 2))).transpose(1, 2)
        return hidden + changed * present


class CharacterTrunk(Trunk):
    """One state per character; sequences of any length.

    lm: weight and bias of the layer that predicted masked characters in pretraining, if there was any.
    """

    def __init__(
        self,
        characters: int,
        *,
        width: int = 96,
        depth: int = 2,
        reach: int = 3,
        dropout: float = 0.1,
        pooling: Pooling | None = None,
        lm: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.shape = {"characters": characters, "width": width, "depth": depth, "reach": reach,
                      "dropout": dropout}  # fmt: skip
        self.encoder = CharacterEncoder(
            characters, width=width, depth=depth, reach=reach, dropout=dropout
        )
        self.hidden = width
        self.dropout = dropout
        self.pooling = checked_pooling(pooling, "mean")
        self.lm = lm

    def forward(self, batch: Batch) -> States:
        """The states of the characters."""
        states: torch.Tensor = self.encoder(batch["input_ids"])
        return States(states, batch["attention_mask"], self.pooling)

    def checkpoint(self) -> None:
        """Around its blocks."""
        checkpoint_blocks(self.encoder.blocks)

    def masked_lm_head(self) -> nn.Module:
        """A linear layer: as it was after pretraining, or fresh."""
        head = nn.Linear(self.hidden, int(self.shape["characters"]))
        if self.lm is not None:
            with torch.no_grad():
                for parameter, value in zip((head.weight, head.bias), self.lm, strict=True):
                    parameter.copy_(value)
        return head

    def options(self) -> dict[str, Any]:
        """Pooling."""
        return {"pooling": self.pooling}

    def save(self, folder: Path) -> None:
        """Write config.json and model.safetensors, which only this library reads."""
        save_own(self, folder, {"model_type": MODEL_TYPE, **self.shape})


@dataclass(frozen=True)
class CharacterEncoding:
    """One sequence of characters, as `gradaccord.models.tokens.Encoding` describes it."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    sequence_ids: list[int | None]
    word_ids: list[int | None]
    overflowing: Sequence[Encoding] = field(default_factory=list)

    @property
    def type_ids(self) -> list[int]:
        """There are no segments."""
        return [0] * len(self.ids)


class CharacterTokens:
    """Characters as tokens. Two texts are joined by an unknown character."""

    pad = Vocabulary.PADDING
    has_types = False
    max_length = 512  # by choice: the encoder has no limit

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.size = len(vocabulary)
        self._numbers = {c: i for i, c in enumerate(vocabulary.characters, start=3)}
        text = "".join(vocabulary.characters)
        self.fingerprint = f"characters-{blake2b(text.encode(), digest_size=16).hexdigest()}"

    @classmethod
    def load(cls, folder: Path) -> CharacterTokens:
        """Read what `save` wrote."""
        path = folder / VOCABULARY
        try:
            characters = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} cannot be read ({error}): save the model anew.") from error
        return cls(Vocabulary(characters))

    def save(self, folder: Path) -> None:
        """Write the characters in the order of their numbers."""
        text = json.dumps(list(self.vocabulary.characters), ensure_ascii=False)
        (folder / VOCABULARY).write_text(text, encoding="utf-8")

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
        if seconds is None:
            return [self._windows(text, None, max_length, "only_first", stride) for text in firsts]
        pairs = zip(firsts, seconds, strict=True)
        return [self._windows(a, b, max_length, truncation, stride) for a, b in pairs]

    def encode_words(
        self, sentences: Sequence[Sequence[str]], *, max_length: int
    ) -> Sequence[Encoding]:
        """Words with a space between them, which belongs to none."""
        encodings = []
        for words in sentences:
            ids: list[int] = []
            offsets: list[tuple[int, int]] = []
            word_ids: list[int | None] = []
            for number, word in enumerate(words):
                if number:
                    ids.append(self._number(" "))
                    offsets.append((0, 0))
                    word_ids.append(None)
                ids += map(self._number, word)
                offsets += [(i, i + 1) for i in range(len(word))]
                word_ids += [number] * len(word)
            whole = CharacterEncoding(ids, offsets, [0] * len(ids), word_ids)
            encodings.append(_cut(whole, max_length))
        return encodings

    def decode(self, ids: Sequence[int]) -> str:
        """Text again; padding, unknown and masked characters are left out."""
        return "".join(self.vocabulary.characters[i - 3] for i in ids if i >= 3)

    def masking(self) -> MaskTokens:
        """The first three numbers are special."""
        special = (Vocabulary.PADDING, Vocabulary.UNKNOWN, Vocabulary.MASK)
        return MaskTokens(Vocabulary.MASK, self.size, special, Vocabulary.PADDING)

    def _number(self, character: str) -> int:
        return self._numbers.get(character, Vocabulary.UNKNOWN)

    def _windows(
        self, first: str, second: str | None, max_length: int, truncation: Truncation, stride: int
    ) -> Encoding:
        joint = 0 if second is None else 1
        room = max_length - joint
        if truncation == "longest_first":
            longer = max(room - min(len(first), len(second or "")), (room + 1) // 2)
            kept = first[:longer], (second or "")[: room - min(len(first), longer)]
            whole = len(kept[0]) == len(first) and len(kept[1]) == len(second or "")
            rest: list[Encoding] = [] if whole else [self._joined("", first[longer:])]
            return self._joined(kept[0], kept[1], overflowing=rest)
        moving, fixed = (first, second) if truncation == "only_first" else (second or "", first)
        room -= len(fixed or "")
        if room < 1 or stride >= room:
            raise ValueError(
                f"`max_length` is {max_length}: too short for the text that must stay whole and for "
                f"windows that overlap by {stride}."
            )
        starts = range(0, max(len(moving) - stride, 1), room - stride)
        windows = [
            self._joined(moving[s : s + room], fixed, shift=(s, 0))
            if truncation == "only_first"
            else self._joined(first, moving[s : s + room], shift=(0, s))
            for s in starts
        ]
        one = windows[0]
        return CharacterEncoding(one.ids, one.offsets, one.sequence_ids, one.word_ids, windows[1:])

    def _joined(
        self,
        first: str,
        second: str | None,
        *,
        shift: tuple[int, int] = (0, 0),
        overflowing: Sequence[Encoding] = (),
    ) -> CharacterEncoding:
        ids = [self._number(c) for c in first]
        offsets = [(shift[0] + i, shift[0] + i + 1) for i in range(len(first))]
        sequence_ids: list[int | None] = [0] * len(first)
        if second is not None:
            ids += [Vocabulary.UNKNOWN, *map(self._number, second)]
            offsets += [(0, 0)] + [(shift[1] + i, shift[1] + i + 1) for i in range(len(second))]
            sequence_ids += [None] + [1] * len(second)
        if not ids:  # a sequence without any token has no state to read
            ids, offsets, sequence_ids = [Vocabulary.UNKNOWN], [(0, 0)], [None]
        return CharacterEncoding(ids, offsets, sequence_ids, [None] * len(ids), list(overflowing))


def _cut(whole: CharacterEncoding, length: int) -> CharacterEncoding:
    if not whole.ids:
        return CharacterEncoding([Vocabulary.UNKNOWN], [(0, 0)], [None], [None])
    if len(whole.ids) <= length:
        return whole

    def part(start: int, end: int | None, rest: Sequence[Encoding]) -> CharacterEncoding:
        return CharacterEncoding(
            whole.ids[start:end], whole.offsets[start:end], whole.sequence_ids[start:end],
            whole.word_ids[start:end], rest,
        )  # fmt: skip

    return part(0, length, [part(length, None, [])])
