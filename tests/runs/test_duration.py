"""Durations as people read them."""

from __future__ import annotations

import math

import pytest

from gradaccord.runs.duration import duration


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0:00"), (59.4, "0:59"), (59.6, "1:00"), (65, "1:05"), (3599.6, "1:00:00"),
        (3725, "1:02:05"), (100 * 3600, "100:00:00"), (math.nan, "?"), (math.inf, "?"),
    ],
)  # fmt: skip
def test_minutes_and_hours_have_two_digits_after_the_first_number(seconds, shown):
    assert duration(seconds) == shown
