"""Checks of option values that several rooms share."""

from __future__ import annotations


def whole_number(field: str, value: object, least: int = 1) -> int:
    """The value of an option that must be a whole number, at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"`{field}` is {value!r}: it must be a whole number >= {least}.")
    return value
