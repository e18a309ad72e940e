"""Hugging Face tokenizers: segments, words and their pieces, folders without one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_models import ARCHITECTURES, TEXTS, save_checkpoint

from gradaccord.models.trunks.loading import load_trunk

pytest.importorskip("transformers")


@pytest.fixture(scope="module", params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(architecture: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp(architecture), architecture)


def batch_of(tokens, texts=TEXTS, seconds=None):
    from gradaccord.data.encoded import Encoded

    encodings = tokens.encode(list(texts), seconds, max_length=tokens.max_length)
    types = [e.type_ids for e in encodings] if tokens.has_types else None
    encoded = Encoded.single([e.ids for e in encodings], types, pad=tokens.pad)
    return encoded


def test_segments_only_where_the_model_has_them(folder, architecture):
    trunk, tokens = load_trunk(folder)
    assert tokens.has_types == (architecture in ("bert", "electra"))
    batch = batch_of(tokens, TEXTS[:2], TEXTS[2:4]).batch([0, 1])
    assert ("token_type_ids" in batch) == tokens.has_types
    batch["token_type_ids"] = torch.zeros_like(batch["input_ids"])  # is ignored if it is not known
    trunk.eval()(batch)


def test_word_ids_name_the_word_of_each_piece(folder):
    _, tokens = load_trunk(folder)
    words = ["The", "quick", "Straße", "dog", "."]
    [encoding] = tokens.encode_words([words], max_length=64)
    pieces = [
        "".join(
            tokens.decode([i]) for i, w in zip(encoding.ids, encoding.word_ids, strict=True) if w == k
        )
        for k in range(len(words))
    ]
    seen = [piece.replace("##", "").replace(" ", "").lower() for piece in pieces]
    if "[unk]" not in "".join(seen):
        assert [s.replace("ss", "ß").replace("strasse", "straße") for s in seen] == [
            w.lower() for w in words
        ]
    present = [w for w in encoding.word_ids if w is not None]
    assert present == sorted(present)
    assert set(present) == set(range(len(words)))


def test_words_get_the_pieces_they_have_in_a_sentence(folder):
    _, tokens = load_trunk(folder)
    words = ["Shares", "of", "the", "company", "fell", "after", "it"]
    [apart] = tokens.encode_words([words], max_length=64)
    [sentence] = tokens.encode([" " + " ".join(words)], max_length=64)
    assert apart.ids == sentence.ids
