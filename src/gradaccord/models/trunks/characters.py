"""A small convolutional encoder of characters, as the trunk of the `cldr` names, and its tokens."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import dropout as drop
from torch.nn.functional import relu
from torch.nn.utils.rnn import pad_sequence

from gradaccord.data.encoded import Batch
from gradaccord.data.files.bad_files import reading
from gradaccord.data.text.masking import Tokens as MaskTokens
from gradaccord.models.tokens import Encoding, Truncation
from gradaccord.models.trunks.execution import checkpoint_blocks
from gradaccord.models.trunks.huggingface import checked_pooling
from gradaccord.models.trunks.trunk import Pooling, States, Trunk, save_own

MODEL_TYPE = "gradaccord-characters"
VOCABULARY = "characters.json"
PADDING, UNKNOWN, MASK = range(3)


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
        self.shape: dict[str, Any] = {
            "characters": characters, "width": width, "depth": depth, "reach": reach, "dropout": dropout
        }  # fmt: skip
        self.encoder = CharacterEncoder(**self.shape)
        self.hidden = width
        self.dropout = dropout
        self.pooling = checked_pooling(pooling, "mean")
        self.lm = lm

    def forward(self, batch: Batch) -> States:
        """The states of the characters."""
        states: torch.Tensor = self.encoder(batch["input_ids"])
        return States(states, batch["attention_mask"], self.pooling)

    def checkpoint(self) -> None:
        """Recompute each block."""
        checkpoint_blocks(self.encoder.blocks)

    def masked_lm_head(self) -> nn.Module:
        """A linear layer: as it was after pretraining, or fresh."""
        head = nn.Linear(self.hidden, self.shape["characters"])
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


Piece = tuple[int, tuple[int, int], int | None, int | None]  # id, offsets, sequence id, word id


class CharacterEncoding:
    """One sequence of characters, as `gradaccord.models.tokens.Encoding` describes it."""

    def __init__(self, pieces: Sequence[Piece], overflowing: Sequence[Encoding] = ()) -> None:
        # A sequence without any token has no state to read.
        pieces = pieces or [(UNKNOWN, (0, 0), None, None)]
        self.ids = [piece[0] for piece in pieces]
        self.offsets = [piece[1] for piece in pieces]
        self.sequence_ids = [piece[2] for piece in pieces]
        self.word_ids = [piece[3] for piece in pieces]
        self.type_ids = [0] * len(pieces)  # there are no segments
        self.overflowing = overflowing


class CharacterTokens:
    """Characters as tokens: 0 is padding, 1 an unknown character, 2 a masked one, then `characters`.

    Two texts are joined by an unknown character.
    """

    pad = PADDING
    has_types = False
    reads_pairs = True
    max_length = 512  # by choice: the encoder has no limit

    def __init__(self, characters: Iterable[str]) -> None:
        self.characters = tuple(characters)
        self.size = len(self.characters) + 3
        self._numbers = {character: i for i, character in enumerate(self.characters, start=3)}
        text = "".join(self.characters)
        self.fingerprint = f"characters-{blake2b(text.encode(), digest_size=16).hexdigest()}"

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> CharacterTokens:
        """Every character that occurs in the texts, in the order of their code points."""
        return cls(sorted(set(chain.from_iterable(texts))))

    @classmethod
    def load(cls, folder: Path) -> CharacterTokens:
        """Read what `save` wrote."""
        path = folder / VOCABULARY
        with reading(path, "save the model again"):
            return cls(json.loads(path.read_text(encoding="utf-8")))

    def save(self, folder: Path) -> None:
        """Write the characters in the order of their numbers."""
        text = json.dumps(list(self.characters), ensure_ascii=False)
        (folder / VOCABULARY).write_text(text, encoding="utf-8")

    def padded(self, texts: Sequence[str], max_length: int) -> torch.Tensor:
        """[N, L] int64, padded to the longest of the texts; what is longer than max_length is cut."""
        rows = [torch.tensor([*map(self._number, text[:max_length])], device="cpu") for text in texts]
        return pad_sequence(rows, batch_first=True, padding_value=PADDING)

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
        space: Piece = (self._number(" "), (0, 0), 0, None)
        encodings = []
        for words in sentences:
            pieces: list[Piece] = []
            for number, word in enumerate(words):
                pieces += [space] if number else []
                pieces += [(self._number(c), (i, i + 1), 0, number) for i, c in enumerate(word)]
            rest = [CharacterEncoding(pieces[max_length:])] if len(pieces) > max_length else []
            encodings.append(CharacterEncoding(pieces[:max_length], rest))
        return encodings

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """Text again. special: padding, unknown and masked characters as a square, else left out."""
        return "".join(self.characters[i - 3] if i >= 3 else "\u25a1" * special for i in ids)

    def masking(self) -> MaskTokens:
        """The first three numbers are special."""
        return MaskTokens(MASK, self.size, (PADDING, UNKNOWN, MASK), PADDING)

    def _number(self, character: str) -> int:
        return self._numbers.get(character, UNKNOWN)

    def _windows(
        self, first: str, second: str | None, max_length: int, truncation: Truncation, stride: int
    ) -> Encoding:
        one = self._pieces(first, 0)
        two = None if second is None else self._pieces(second, 1)
        room = max_length - (two is not None)
        if truncation == "longest_first":
            two = two or []
            longer = max(room - min(len(one), len(two)), (room + 1) // 2)
            kept = one[:longer], two[: room - min(len(one), longer)]
            whole = len(kept[0]) == len(one) and len(kept[1]) == len(two)
            return CharacterEncoding(
                _joined(*kept), [] if whole else [CharacterEncoding(_joined([], one[longer:]))]
            )
        moving, fixed = (one, two) if truncation == "only_first" else (two or [], one)
        room -= len(fixed or ())
        if room < 1 or stride >= room:
            raise ValueError(
                f"`max_length` is {max_length}: too short for the text that must stay whole and for "
                f"windows that overlap by {stride}."
            )
        parts = [moving[s : s + room] for s in range(0, max(len(moving) - stride, 1), room - stride)]
        windows = [_joined(p, fixed) if truncation == "only_first" else _joined(one, p) for p in parts]
        return CharacterEncoding(windows[0], [CharacterEncoding(window) for window in windows[1:]])

    def _pieces(self, text: str, sequence: int) -> list[Piece]:
        return [(self._number(c), (i, i + 1), sequence, None) for i, c in enumerate(text)]


def _joined(first: list[Piece], second: list[Piece] | None) -> list[Piece]:
    return first if second is None else [*first, (UNKNOWN, (0, 0), None, None), *second]
