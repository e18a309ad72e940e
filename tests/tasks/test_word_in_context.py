"""WiC: real spans are the tokens of their words."""

from __future__ import annotations

from kinds_support import tokens, wic

from gradaccord.tasks import (
    WordInContext,
)


def test_real_spans_are_the_tokens_of_their_words() -> None:
    examples = wic(200)
    encoded = WordInContext().encode(examples, tokens())
    assert encoded.notes == {"truncated": 0, "spans cut": 0}
    for row, example in enumerate(examples):
        for column, text, span in (
            ("first_span", example.first, example.first_span),
            ("second_span", example.second, example.second_span),
        ):
            start, end = encoded.columns[column][row].tolist()
            found = tokens().decode(encoded.ids[row][start:end].tolist())  # type: ignore[index]
            assert found.replace(" ", "") == text[slice(*span)].lower().replace(" ", "")
