"""Classes and labels that cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from small_models import train_tokenizer

from gradaccord.data.examples import Text
from gradaccord.models.tokens import HuggingFaceTokens
from gradaccord.tasks import (
    build,
)


@pytest.fixture(scope="module")
def tokens() -> HuggingFaceTokens:
    return HuggingFaceTokens(train_tokenizer("bert", ["a good film and a bad one"], 200, 64))


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
