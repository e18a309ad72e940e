"""Checks of option values name the field, the value and the remedy."""

from __future__ import annotations

import pytest

from gradaccord.core.checks import finite, one_of, whole_number


@pytest.mark.parametrize("value", [0, 1.0, True, "2", None])
def test_what_is_no_whole_number_is_refused(value):
    with pytest.raises(ValueError, match=f"`steps` is {value!r}: it must be a whole number >= 1"):
        whole_number("steps", value)
    with pytest.raises(ValueError, match="whole number >= 1, or leave it\\.$"):
        whole_number("steps", value, hint=", or leave it")


@pytest.mark.parametrize("value", [-1, float("inf"), float("nan")])
def test_what_is_not_finite_is_refused(value):
    with pytest.raises(ValueError, match=f"`lr` is {value}: it must be a finite number >= 0"):
        finite("lr", value)


def test_allowed_values_are_listed():
    with pytest.raises(ValueError, match="`kind` is 'd': use 'a', 'b' or None\\."):
        one_of("kind", "d", ("a", "b", None))
    assert whole_number("steps", 0, least=0) == 0
    assert finite("lr", 0) == 0.0
