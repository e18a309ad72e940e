"""Checks of options, with an error that names the option, the value and what it must be."""

from __future__ import annotations

from typing import Any, get_args


def whole_number(name: str, value: object, least: int = 1, hint: str = "") -> int:
    """The value, if it is an integer of at least `least`. hint: what the error adds at its end."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"`{name}` is {value!r}: it must be a whole number >= {least}{hint}.")
    return value


def one_of(name: str, value: object, allowed: Any) -> None:
    """Refuse a value that is not allowed. allowed: a `Literal` type, or the values."""
    values = get_args(allowed) or allowed
    if value not in values:
        *others, last = map(repr, values)
        raise ValueError(f"`{name}` is {value!r}: use {', '.join(others)} or {last}.")


def finite(name: str, value: float) -> float:
    """The value of an option that must be a finite number >= 0."""
    if not 0 <= value < float("inf"):
        raise ValueError(f"`{name}` is {value}: it must be a finite number >= 0.")
    return float(value)
