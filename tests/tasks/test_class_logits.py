"""Predictions that are no answer."""

from __future__ import annotations

import pytest

from gradaccord.data.examples import Candidate, Cloze
from gradaccord.tasks import (
    EntityCloze,
    MultiAnswer,
)


def test_a_prediction_that_is_no_answer_is_an_error() -> None:
    with pytest.raises(ValueError, match="must be true or false"):
        MultiAnswer().score([Candidate("p", "q", "a", 1)], ["maybe"])
    with pytest.raises(ValueError, match="text of an entity"):
        EntityCloze().score([Cloze("p", "@placeholder", ("A",), ("A",))], [3])
