"""A split encoded in blocks is the split encoded at once, whatever the kind of task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import train_tokenizer

from gradaccord.data.examples import (
    Candidate,
    Choices,
    Cloze,
    Coreference,
    Document,
    Line,
    Question,
    Tagged,
    Text,
    WordPair,
)
from gradaccord.models.tokens import HuggingFaceTokens
from gradaccord.tasks import KINDS, build, prepare

SENTENCE = "the quick brown fox jumps over a lazy dog and runs far away from it"
WORDS = SENTENCE.split()


def text(i: int, words: int) -> str:
    return " ".join(WORDS[(i + 3 * j) % len(WORDS)] for j in range(words))


EXAMPLES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "classification": (
        {"labels": ("no", "yes"), "max_length": 8},
        [Text(text(i, 1 + i % 9), None, i % 2, str(i)) for i in range(11)],
    ),
    "regression": (
        {"pair": "separate", "symmetric": True},
        [Text(text(i, 3), text(i + 1, 2), i / 2, str(i)) for i in range(9)],
    ),
    "question_answering": (
        {"max_length": 24, "stride": 4},
        [Question("who", text(i, 30 + i), (text(i, 1),), (0,), "en", str(i)) for i in range(9)],
    ),
    "tagging": (
        {"labels": ("X",), "max_length": 8},
        [
            Tagged(tuple(text(i, 3 + i).split()), ("B-X",) + ("O",) * (2 + i), str(i))
            for i in range(9)
        ],
    ),
    "multiple_choice": (
        {},
        [Choices(text(i, 4), "", ("fox", "a dog", "it")[: 2 + i % 2], i % 2, str(i)) for i in range(9)],
    ),
    "multi_answer": ({}, [Candidate(text(i, 9), "who", "it", i % 2, "g", str(i)) for i in range(9)]),
    "cloze": (
        {},
        [Cloze(text(i, 9), "a @placeholder", ("fox", "dog")[: 1 + i % 2], ("fox",)) for i in range(9)],
    ),
    "word_in_context": (
        {"max_length": 12},
        [WordPair(text(i, 5), text(i, 7), (0, 3), (0, 2), i % 2, str(i)) for i in range(9)],
    ),
    "coreference": ({}, [Coreference(text(i, 6), (0, 2), (3, 5), i % 2, str(i)) for i in range(9)]),
    "summarization": (
        {"max_length": 6},
        [Document(text(i, 9), (text(i, 3),) if i % 3 else (), str(i)) for i in range(9)],
    ),
    "masked_lm": ({}, [Line(text(i, 9), str(i)) for i in range(9)]),
}  # fmt: skip


def test_every_kind_of_text_is_here() -> None:
    assert EXAMPLES.keys() == set(KINDS) - {"image"}


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize("folder", ["kept", "not kept"])
def test_blocks_are_as_the_whole(
    kind: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if folder == "not kept":
        (tmp_path / folder).write_text("")  # no folder can be made there
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / folder))
    options, examples = EXAMPLES[kind]
    task = build(kind, **options)
    tokens = HuggingFaceTokens(train_tokenizer("bert", [SENTENCE], 60, 64))
    whole, about = task.encode(examples, tokens).parts()
    monkeypatch.setattr(prepare, "BLOCK", 4)
    parts, found = prepare.encode(task, examples, tokens).parts()
    assert found == about
    assert parts.keys() == whole.keys()
    for name, part in parts.items():
        assert part.dtype == whole[name].dtype, name
        assert torch.equal(part.nan_to_num(), whole[name].nan_to_num()), name
