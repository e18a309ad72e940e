"""Hugging Face tokenizers: segments, words and their pieces, folders without one."""

from __future__ import annotations

import pytest
import torch
from small_models import TEXTS, batch_of

from gradaccord.models.trunks.loading import load_trunk

pytest.importorskip("transformers")


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
