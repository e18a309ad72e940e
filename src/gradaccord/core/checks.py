"""Checks of options, with an error that names the option, the value and what it must be."""

from __future__ import annotations


def whole_number(name: str, value: object, least: int = 1, hint: str = "") -> int:
    """The value, if it is an integer of at least `least`. hint: what the error adds at its end."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"`{name}` is {value!r}: it must be a whole number >= {least}{hint}.")
    return value
