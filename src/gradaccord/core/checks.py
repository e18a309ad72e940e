"""Checks of option values that several rooms share."""

from __future__ import annotations

from collections.abc import Sequence


def whole_number(field: str, value: object, least: int = 1, hint: str = "") -> int:
    """The value of an option that must be a whole number, at least `least`. hint: ends the error."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"`{field}` is {value!r}: it must be a whole number >= {least}{hint}.")
    return value


def one_of(field: str, value: object, allowed: Sequence[object]) -> None:
    """Refuse an option value that is not one of those allowed."""
    if value not in allowed:
        *others, last = map(repr, allowed)
        raise ValueError(f"`{field}` is {value!r}: use {', '.join(others)} or {last}.")


def finite(field: str, value: float) -> float:
    """The value of an option that must be a finite number >= 0."""
    if not 0 <= value < float("inf"):
        raise ValueError(f"`{field}` is {value}: it must be a finite number >= 0.")
    return float(value)
