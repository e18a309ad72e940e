"""WSC: real mentions are found in texts of any length."""

from __future__ import annotations

from kinds_support import tokens, wsc

from gradaccord.tasks import (
    PronounResolution,
)


def test_real_mentions_are_found_in_texts_of_any_length() -> None:
    examples = wsc(554)
    encoded = PronounResolution().encode(examples, tokens())
    assert encoded.notes["spans cut"] == 0
    short = PronounResolution(max_length=16).encode(examples, tokens())
    assert short.notes["spans cut"] > 0
    assert int(short.columns["second_span"].max()) <= 16
