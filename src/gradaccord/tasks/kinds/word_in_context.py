"""Word in context (WiC): does a word mean the same in two sentences? Span vectors, accuracy."""

from __future__ import annotations

from dataclasses import dataclass

from gradaccord.data.examples import WordPair
from gradaccord.tasks.kinds.span_pair import Marked, SpanPair
from gradaccord.tasks.task import StartingFile


@dataclass(frozen=True)
class WordInContext(SpanPair[WordPair]):
    """Both sentences in one sequence; the head sees its pooled vector and those of the two words.

    Pilehvar & Camacho-Collados 2019; the head is that of SuperGLUE's baseline with |u - v| added.
    """

    kind = "word_in_context"
    starting_file = StartingFile(
        "jsonl", ("# each line: first, second, first_span and second_span ([start, end]), label",)
    )
    sample_question = {
        "first": "the river bank", "second": "the bank pays",
        "first_span": [10, 14], "second_span": [4, 8],
    }  # fmt: skip

    def texts(self, example: WordPair) -> tuple[str, ...]:
        return example.first, example.second

    def marked(self, example: WordPair) -> tuple[Marked, Marked]:
        return (
            Marked("first_span", 0, example.first_span),
            Marked("second_span", 1, example.second_span),
        )
