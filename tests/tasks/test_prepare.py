"""Encodings kept on disk: found again, and never those of another task, tokenizer or text."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import train_tokenizer

from gradaccord.data.dataset import Dataset
from gradaccord.data.encoded import Encoded
from gradaccord.data.examples import Line, Text
from gradaccord.data.files.cache_folder import cache_folder
from gradaccord.models.tokens import HuggingFaceTokens
from gradaccord.tasks import build
from gradaccord.tasks.prepare import encode, prepare
from gradaccord.tasks.task import Task

PAIRS = [Text("The quick brown fox", "jumps over it", 0, "a"), Text("A good film", "a bad one", 1, "b")]
TASK = build("classification", labels=("no", "yes"), pair="cross")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))


@cache
def _tokenizer() -> Any:
    return train_tokenizer("bert", ["The quick brown fox jumps over a good film"], 200, 64)


def tokens(**changes: Any) -> HuggingFaceTokens:
    tokenizer = deepcopy(_tokenizer())
    for name, value in changes.items():
        setattr(tokenizer, name, value)
    return HuggingFaceTokens(tokenizer)


def same(one: Encoded, other: Encoded) -> bool:
    (parts, about), (others, about_other) = one.parts(), other.parts()
    return (
        about == about_other
        and parts.keys() == others.keys()
        and all(torch.equal(part, others[name]) for name, part in parts.items())
    )


def test_a_second_reading_comes_from_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    first = encode(TASK, PAIRS, tokens())
    monkeypatch.setattr(type(TASK), "encode", None)  # a call would raise
    assert same(encode(TASK, PAIRS, tokens()), first)
    assert len(list(cache_folder().iterdir())) == 1


@pytest.mark.parametrize(
    ("task", "examples", "change"),
    [
        (replace(TASK, max_length=8), PAIRS, lambda t: t),
        (replace(TASK, pair="separate"), PAIRS, lambda t: t),
        (TASK, [PAIRS[0], replace(PAIRS[1], label=0)], lambda t: t),
        (TASK, [PAIRS[0], replace(PAIRS[1], second="a film")], lambda t: t),
        (TASK, PAIRS[::-1], lambda t: t),
        (TASK, PAIRS, lambda t: t.limited(9, types=True)),
        (TASK, PAIRS, lambda t: t.limited(None, types=False)),
        (TASK, PAIRS, lambda t: tokens(pad_token="[MASK]")),
    ],
    ids=["length", "pair", "label", "text", "order", "model's length", "segments", "padding"],
)
def test_whatever_changes_is_encoded_anew(
    task: Task[Any], examples: list[Text], change: Callable[[HuggingFaceTokens], HuggingFaceTokens]
) -> None:
    before = encode(TASK, PAIRS, tokens())
    read = change(tokens())
    found = encode(task, examples, read)
    assert same(found, task.encode(examples, read))
    assert not same(found, before)


def test_masks_follow_the_special_tokens_that_stand_beside_the_vocabulary() -> None:
    task, lines = build("masked_lm", share=1.0), [Line("The quick brown fox", "a")]
    encode(task, lines, tokens())
    other = tokens(mask_token="[UNK]")
    assert same(encode(task, lines, other), task.encode(lines, other))


def test_a_file_that_was_cut_off_is_made_again() -> None:
    first = encode(TASK, PAIRS, tokens())
    (file,) = cache_folder().iterdir()
    content = file.read_bytes()
    file.unlink()  # what is mapped stays whole
    file.write_bytes(content[:100])
    assert same(encode(TASK, PAIRS, tokens()), first)
    assert file.stat().st_size > 100


def test_several_at_once_see_a_whole_file_or_none() -> None:
    read = [tokens() for _ in range(8)]
    expected = TASK.encode(PAIRS * 200, read[0])
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda each: encode(TASK, PAIRS * 200, each), read))
    assert all(same(each, expected) for each in found)
    assert [path.suffix for path in cache_folder().iterdir()] == [".safetensors"]


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_what_has_no_label_is_not_trained_on_but_predicted(kind: str) -> None:
    unknown = replace(PAIRS[1], label=None)
    dataset = Dataset("mixed", kind, {"train": [unknown, PAIRS[0]], "dev": [unknown, PAIRS[0]]})
    task = TASK if kind == "classification" else build(kind)
    found = prepare("mixed", task, dataset, tokens())
    assert (list(found.splits["train"]), len(found.encoded["train"])) == ([PAIRS[0]], 1)
    assert found.notes["train"]["left out, without a label"] == 1
    assert len(found.encoded["dev"]) == len(found.splits["dev"]) == 2
    nothing = replace(dataset, splits={"train": [unknown]})
    with pytest.raises(ValueError, match="'mixed': none of its 1 training examples is labelled"):
        prepare("mixed", task, nothing, tokens())
