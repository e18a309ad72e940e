"""`core.checks`: options that must be whole numbers."""

from __future__ import annotations

from typing import Any

import pytest

from gradaccord.core.checks import whole_number


def test_a_whole_number_is_returned() -> None:
    assert whole_number("n", 3) == 3
    assert whole_number("n", 0, least=0) == 0


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "2", None])
def test_anything_else_is_refused_by_name_and_value(value: Any) -> None:
    with pytest.raises(ValueError, match=r"`n` is .*: it must be a whole number >= 1, or leave it\.$"):
        whole_number("n", value, hint=", or leave it")
