"""Contexts cut finer than the tokenizer cuts them: answers inside words can be pointed at."""

from __future__ import annotations

import pytest
from gold_spans import recovered
from kinds_support import tokens as minilm_tokens
from qa_support import asked, sample

from gradaccord.tasks.kinds.question_answering import QuestionAnswering


@pytest.mark.parametrize("name", ["squad1", "squad2", "tydiqa.ko", "xquad.th"])
def test_unknown_words_are_cut_into_characters_without_being_asked(name: str) -> None:
    examples = sample(name)
    encoded = QuestionAnswering().encode(examples, minilm_tokens())
    assert encoded.notes["answers not recovered"] <= 0.01 * len(examples)


@pytest.mark.parametrize(
    ("context", "answer"),
    [
        ("Die Stadt heißt KÖLN, am Rhein.", "KÖLN"),
        ("కృష్ణా నది తెలుగు నేల మీద ఉంది", "తెలుగు"),  # the last vowel sign is outside every token
        ("수도는 레이캬비크이다.", "레이캬비크"),  # an unknown word that goes on behind the answer
        ("กรุงเทพมหานครเป็นเมืองหลวง", "เมืองหลวง"),
        ("e\u0301te\u0301 is summer", "e\u0301te\u0301"),
        ("😀 smiles 😀😀", "smiles"),
    ],
)
def test_text_that_the_tokenizer_changes(context: str, answer: str) -> None:
    examples = [asked("what?", context, answer)]
    encoded = QuestionAnswering().encode(examples, minilm_tokens())
    assert list(recovered(examples, encoded)) == [answer]
