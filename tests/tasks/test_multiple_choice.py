"""COPA and XCOPA: a question in the words of its language."""

from __future__ import annotations

from dataclasses import replace

from kinds_support import records, tokens

from gradaccord.data.examples import Choices
from gradaccord.tasks import (
    MultipleChoice,
)
from gradaccord.tasks.kinds.multiple_choice import QUESTIONS


def test_a_question_is_put_in_the_words_of_its_language() -> None:
    cause = Choices("Pioveva.", "cause", ("a", "b"))
    assert MultipleChoice("it").question(cause) == "perché"
    assert MultipleChoice().question(cause) == "What was the cause of this?"
    assert MultipleChoice(effect="so").question(replace(cause, question="effect")) == "so"
    assert MultipleChoice().question(replace(cause, question="Who?")) == "Who?"
    read = tokens().decode(MultipleChoice("it").encode([cause], tokens()).ids[0].tolist())  # type: ignore[index]
    assert "perche" in read  # MiniLM's tokenizer strips accents


def test_every_language_of_xcopa_is_known() -> None:
    for language in ("et", "ht", "id", "it", "qu", "sw", "ta", "th", "tr", "vi", "zh"):
        rows = records(f"xcopa/val.{language}.jsonl.gz")
        assert {row["question"] for row in rows} <= {"cause", "effect"}
        assert language in QUESTIONS
