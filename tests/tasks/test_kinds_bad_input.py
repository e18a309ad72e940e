"""Options, texts and predictions that cannot be: one sentence each."""

from __future__ import annotations

import math
from typing import Any

import pytest
from kinds_support import tokens as minilm_tokens
from small_models import train_tokenizer

from gradaccord.data.examples import (
    Candidate,
    Choices,
    Cloze,
    Coreference,
    Document,
    Tagged,
    Text,
    WordPair,
)
from gradaccord.models.tokens import HuggingFaceTokens
from gradaccord.tasks import (
    EntityCloze,
    MultiAnswer,
    MultipleChoice,
    PronounResolution,
    Regression,
    WordInContext,
    build,
)

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


@pytest.mark.parametrize(
    ("task", "example", "said"),
    [
        (Regression(), Text("a", "b", 5.5, "x"), "'x' has the value 5.5: it must be in 0..5"),
        (Regression(), Text("a", "b", math.nan, "x"), "'x' has the value nan"),
        (Regression(), Text("a", None, 1.0, "x"), "`pair`"),
        (MultipleChoice(), Choices("p", "cause", ("a", "b"), 2, "x"), "0..1, the number of a choice"),
        (MultipleChoice(), Choices("p", "cause", (), None, "x"), "has no choices"),
        (
            MultiAnswer(),
            Candidate("p", "q", "a", 3, "g", "x"),
            "'x' has the label 3: it must be 0 or 1",
        ),
        (EntityCloze(), Cloze("p", "no gap", ("A",), (), "x"), "must hold @placeholder once"),
        (EntityCloze(), Cloze("p", "@placeholder", (), (), "x"), "has no entities"),
        (WordInContext(), WordPair("ab", "cd", (0, 3), (0, 1), 1, "x"), "first_span (0, 3)"),
        (PronounResolution(), Coreference("ab", (0, 1), (1, 1), 1, "x"), "pronoun_span (1, 1)"),
    ],
)
def test_an_example_that_cannot_be_is_named(task: object, example: object, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        task.encode([example], minilm_tokens())  # type: ignore[attr-defined]
    assert said in str(caught.value)
