"""Spans of words become spans of tokens; means over them."""

from __future__ import annotations

import torch
from kinds_support import tokens

from gradaccord.data.examples import Coreference
from gradaccord.tasks import (
    PronounResolution,
)
from gradaccord.tasks.kinds.span_pair import span_mean


def test_a_span_that_truncation_took_is_counted_and_stands_for_the_first_token() -> None:
    text = "word " * 30 + "end"
    example = Coreference(text, (0, 4), (len(text) - 3, len(text)), 1)
    encoded = PronounResolution(max_length=12).encode([example], tokens())
    assert encoded.notes == {"truncated": 1, "spans cut": 1}
    assert encoded.columns["first_span"].tolist() == [[1, 2]]
    assert encoded.columns["second_span"].tolist() == [[0, 1]]


def test_span_means_against_a_loop() -> None:
    states = torch.randn(3, 7, 4, dtype=torch.float64)
    spans = torch.tensor([[0, 1], [2, 7], [3, 5]])
    expected = torch.stack([states[i, a:b].mean(0) for i, (a, b) in enumerate(spans.tolist())])
    torch.testing.assert_close(span_mean(states, spans), expected)
