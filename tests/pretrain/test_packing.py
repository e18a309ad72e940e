"""Sequences of one length: no token is lost, words are known, languages come by p ~ N^balance."""

import math
from collections import Counter
from itertools import pairwise

import pytest
import torch
from pretrain_toy import configured

from gradaccord.pretrain.packing import LONGEST_WORD, PackedRows, pack, unigram_loss
from gradaccord.pretrain.texts import load_texts
from gradaccord.pretrain.tokenizer import trained_tokenizer


@pytest.fixture(scope="module")
def loaded(texts):
    config = configured(texts)
    found = load_texts(config, None)
    return found, trained_tokenizer(config, found)


def test_packing_loses_no_token(loaded):
    found, tokens = loaded
    for own in found:
        packed = pack(own, 0, tokens, 32, words=True)
        expected = []
        for text in own.of_role(0):
            expected += [*tokens.pieces([text])[0].ids, tokens.tokenizer.sep_token_id]
        rows = [packed[row].tolist() for row in range(len(packed))]
        assert [token for row in rows for token in row] == expected
        assert {len(row) for row in rows[:-1]} == {31}
        assert 0 < len(rows[-1]) <= 31
        assert packed.begins is not None
        assert len(packed.begins) == len(expected)


def test_words_begin_where_no_piece_continues_them(loaded):
    found, tokens = loaded
    packed = pack(found[0], 0, tokens, 32, words=True)
    pieces = tokens.tokenizer.convert_ids_to_tokens(packed.flat[:2000].tolist())
    begins = packed.begins[:2000].bool().tolist()
    continued = [piece.startswith("##") for piece in pieces]
    lengths = word_lengths(continued)
    for place, piece in enumerate(pieces):
        expected = not continued[place] or lengths[place] > LONGEST_WORD
        assert begins[place] == expected, piece
    assert any(continued)


def word_lengths(continued):
    """Of the word that each piece belongs to."""
    starts = [i for i, inside in enumerate(continued) if not inside] + [len(continued)]
    return [end - start for start, end in pairwise(starts) for _ in range(end - start)]


@pytest.mark.parametrize("balance", [0.3, 1.0])
def test_languages_are_drawn_by_a_power_of_their_tokens(loaded, balance):
    found, tokens = loaded
    packed = [pack(own, 0, tokens, 32, words=False) for own in found]
    drawn = PackedRows(packed, balance, seed=1).draw(6000)
    counts = Counter(language for language, _ in drawn)
    powers = [len(own.flat) ** balance for own in packed]
    for language, power in enumerate(powers):
        share = power / sum(powers)
        error = math.sqrt(share * (1 - share) / 6000)
        assert counts[language] / 6000 == pytest.approx(share, abs=4 * error)


def test_every_row_comes_once_in_a_pass_and_a_state_goes_on(loaded):
    found, tokens = loaded
    packed = [pack(own, 0, tokens, 32, words=False) for own in found]
    rows = PackedRows(packed, 0.3, seed=2)
    drawn = rows.draw(400)
    for language, own in enumerate(packed):
        mine = [row for other, row in drawn if other == language][: len(own)]
        assert len({*mine}) == len(mine)
    again = PackedRows(packed, 0.3, seed=2)
    again.load_state_dict(rows.state_dict())
    assert again.draw(300) == rows.draw(300)


def test_the_loss_of_frequencies(loaded):
    found, tokens = loaded
    train, held_out = (pack(found[0], role, tokens, 32, words=False) for role in (0, 1))
    known = tokens.masking()
    counts = Counter(token for token in train.flat.tolist() if token not in known.special)
    total = sum(counts.values()) + known.size - len(known.special)
    asked = [token for token in held_out.flat.tolist() if token not in known.special]
    expected = -sum(math.log((counts[token] + 1) / total) for token in asked) / len(asked)
    assert unigram_loss(train, held_out, known) == pytest.approx(expected, abs=1e-12)
    assert torch.is_tensor(train.flat)
