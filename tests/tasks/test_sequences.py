"""Sentences and pairs as rows, and the sizes of the head that reads them."""

from __future__ import annotations

import pytest
import torch
from small_models import train_tokenizer

from gradaccord.data.examples import Text
from gradaccord.models.tokens import HuggingFaceTokens
from gradaccord.tasks.kinds.sequences import encode_texts, layer_sizes

PAIRS = [Text("a good film", "a bad one", 0, "1"), Text("one", "a film", 1, "2")]
SINGLES = [Text("a good film", None, 0, "1"), Text("one", None, 1, "2")]
LABELS = torch.tensor([0, 1])


@pytest.fixture(scope="module")
def tokens() -> HuggingFaceTokens:
    return HuggingFaceTokens(train_tokenizer("bert", ["a good film and a bad one"], 200, 64))


@pytest.mark.parametrize(
    ("head", "pair", "sizes"),
    [
        ("linear", True, ()), ("hidden", False, (8,)), ("hidden", True, (8, 2)), ((5, 3), True, (5, 3)),
        ([4], False, (4,)),
    ],
)  # fmt: skip
def test_the_hidden_layers_of_a_head(head, pair, sizes):
    assert layer_sizes(head, 8, pair=pair) == sizes


def test_an_unknown_head_is_refused():
    with pytest.raises(ValueError, match="`head` is 'deep': use 'linear', 'hidden' or a list"):
        layer_sizes("deep", 8, pair=False)


def test_a_pair_is_one_sequence_or_two_of_a_row(tokens):
    cross = encode_texts(PAIRS, tokens, "cross", 32, LABELS)
    separate = encode_texts(PAIRS, tokens, "separate", 32, LABELS)
    assert (len(cross), len(cross.ids)) == (2, 2)
    assert (len(separate), len(separate.ids)) == (2, 4)
    batch = separate.batch([1])
    decoded = [tokens.decode(ids.tolist()).strip() for ids in batch["input_ids"]]
    assert decoded == ["one", "a film"]
    assert batch["label"].tolist() == [1]
    assert "row" not in cross.batch([0, 1])


def test_rows_that_are_cut_are_counted(tokens):
    whole, cut = (encode_texts(SINGLES, tokens, None, n, LABELS) for n in (32, 3))
    assert not sum(whole.notes.values())
    assert int(cut.lengths.max()) == 3
    assert cut.notes["truncated"] == 1


@pytest.mark.parametrize(
    ("examples", "pair", "said"),
    [
        (SINGLES, "cross", "Example '1' is a single sentence and `pair` is 'cross': set it to None"),
        (PAIRS, None, "Example '1' is a pair and `pair` is None: set it to 'cross' or 'separate'"),
    ],
)
def test_a_pair_where_none_is_expected_and_the_other_way_round_are_named(tokens, examples, pair, said):
    with pytest.raises(ValueError, match=said):
        encode_texts(examples, tokens, pair, 32, LABELS)
