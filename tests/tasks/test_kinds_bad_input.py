"""Options, texts and predictions that cannot be: one sentence each."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import train_tokenizer

from gradaccord.data.examples import Choices, Document, Line, Tagged, Text, WordPair
from gradaccord.models.tokens import HuggingFaceTokens
from gradaccord.tasks import build

TEXTS = [Text("a good film", None, 0, "1"), Text("a bad one", None, 1, "2")]


@pytest.fixture(scope="module")
def tokens() -> HuggingFaceTokens:
    return HuggingFaceTokens(train_tokenizer("bert", ["a good film and a bad one"], 200, 64))


@pytest.mark.parametrize(
    ("kind", "options", "example", "least"),
    [
        ("classification", {"labels": ["a", "b"]}, Text("a film", None, 0), 3),
        ("classification", {"labels": ["a", "b"], "pair": "cross"}, Text("a film", "a film", 0), 5),
        ("word_in_context", {}, WordPair("a film", "a film", (0, 1), (2, 6), 1), 5),
        ("tagging", {"labels": ["PER"]}, Tagged(("a", "film"), ("O", "O")), 3),
        ("summarization", {}, Document("a film", ("a",)), 3),
    ],
)
def test_a_length_without_room_for_text(
    tokens: HuggingFaceTokens, kind: str, options: dict[str, Any], example: Any, least: int
) -> None:
    task = build(kind, **options, max_length=least)
    assert int(task.encode([example], tokens).lengths.max()) <= max(least, 32)
    for length in (0, least - 1):
        with pytest.raises(ValueError, match=rf"`max_length` is {length}: .* at least {least}"):
            build(kind, **options, max_length=length).encode([example], tokens)


def test_half_of_a_surrogate_pair(tokens: HuggingFaceTokens) -> None:
    task = build("classification", labels=["a", "b"])
    with pytest.raises(ValueError, match=r"'so \\ud83d far' holds half of a surrogate pair"):
        task.encode([Text("so \ud83d far", None, 0)], tokens)
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        build("tagging", labels=["PER"]).encode([Tagged(("\ud83d",), ("O",))], tokens)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"labels": []}, "at least two classes"),
        ({"labels": ["a", "b", "a"]}, "each of them once"),
        ({"labels": ["a", "b", "c"], "average": "binary"}, "there are 3 classes"),
    ],
)
def test_classes_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        build("classification", **options)


def test_a_label_that_is_no_whole_number(tokens: HuggingFaceTokens) -> None:
    with pytest.raises(ValueError, match=r"'1' has the label 0\.7"):
        build("classification", labels=["a", "b"]).encode([Text("a", None, 0.7, "1")], tokens)


@pytest.mark.parametrize(
    ("task", "examples", "predictions"),
    [
        (build("classification", labels=["a", "b"]), TEXTS, ["a", "c"]),
        (build("regression", pair=None), TEXTS, [0.5, "x"]),
        (build("regression", pair=None), TEXTS, [0.5, None]),
        (build("multiple_choice"), [Choices("a", "cause", ("x", "y"), 1)], ["1"]),
        (build("summarization"), [Document("a b", ("a",))], [None]),
    ],
)
def test_predictions_of_another_kind(task: Any, examples: list[Any], predictions: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"A prediction is .*: it must be "):
        task.score(examples, predictions)


@pytest.mark.parametrize("kind", ["summarization", "masked_lm"])
def test_long_sets_are_tokenised_a_block_at_a_time(
    tokens: HuggingFaceTokens, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = [f"film {'good ' * n}" for n in range(1, 8)]
    examples = [Document(t, (t,)) if kind == "summarization" else Line(t) for t in several]
    task, sizes = build(kind, max_length=8), []
    whole = task.encode(examples, tokens)
    encode = HuggingFaceTokens.encode

    def counted(self: HuggingFaceTokens, firsts: Any, *rest: Any, **options: Any) -> Any:
        sizes.append(len(firsts))
        return encode(self, firsts, *rest, **options)

    monkeypatch.setattr(HuggingFaceTokens, "encode", counted)
    monkeypatch.setattr("gradaccord.tasks.tokenising.BLOCK", 3)
    parts, about = task.encode(examples, tokens).parts()
    assert max(sizes) == 3
    assert about == whole.parts()[1]
    assert all(torch.equal(part, whole.parts()[0][name]) for name, part in parts.items())
