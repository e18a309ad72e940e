"""Long sets are tokenised a block at a time, to the same rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import train_tokenizer

from gradaccord.data.examples import Document, Line
from gradaccord.models.tokens import HuggingFaceTokens
from gradaccord.tasks import (
    build,
)


@pytest.fixture(scope="module")
def tokens() -> HuggingFaceTokens:
    return HuggingFaceTokens(train_tokenizer("bert", ["a good film and a bad one"], 200, 64))


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
