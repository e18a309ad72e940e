"""Pronoun resolution (WSC): does a pronoun refer to a noun phrase? Span vectors, accuracy."""

from __future__ import annotations

from dataclasses import dataclass

from gradaccord.data.examples import Coreference
from gradaccord.tasks.kinds.span_pair import Marked, SpanPair
from gradaccord.tasks.task import StartingFile


@dataclass(frozen=True)
class PronounResolution(SpanPair[Coreference]):
    """The text as one sequence; the head sees its pooled vector, the noun phrase's and the pronoun's.

    Levesque et al. 2012, as the true-or-false task of SuperGLUE.
    """

    max_length: int = 256

    kind = "coreference"
    starting_file = StartingFile(
        "jsonl", ("# each line: text, noun_span and pronoun_span ([start, end]), label",)
    )
    sample_question = {
        "text": "Ann left, she is ill.", "noun_span": [0, 3], "pronoun_span": [10, 13],
    }  # fmt: skip

    def texts(self, example: Coreference) -> tuple[str, ...]:
        return (example.text,)

    def marked(self, example: Coreference) -> tuple[Marked, Marked]:
        return (
            Marked("noun_span", 0, example.noun_span),
            Marked("pronoun_span", 0, example.pronoun_span),
        )
