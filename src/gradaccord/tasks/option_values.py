"""Whether the values of a task's options are what its fields say: a slip in a file is told at once."""

from __future__ import annotations

import types
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_SAID = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def checked(owner: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with lists as tuples and whole numbers as floats where a field wants them.

    A value that does not fit its field's type is a ValueError that says what would.
    """
    hints = get_type_hints(owner)
    return {name: _checked(name, value, hints[name]) for name, value in options.items()}


def _checked(name: str, value: Any, hint: Any) -> Any:
    for kind in _alternatives(hint):
        fits, converted = _fit(value, kind)
        if fits:
            return converted
    raise ValueError(f"`{name}` is {value!r}{_remedy(value, hint)}")


def _alternatives(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(kind for part in get_args(hint) for kind in _alternatives(part))
    return (hint,)


def _fit(value: Any, kind: Any) -> tuple[bool, Any]:
    """Whether the value is of the kind, and the value as the kind has it."""
    if kind is Any:
        return True, value
    origin = get_origin(kind)
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in get_args(kind)), value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            return False, value
        parts = get_args(kind)
        each = [parts[0]] * len(value) if parts[-1] is Ellipsis else list(parts)
        if len(each) != len(value):
            return False, value
        fitted = [_fit(item, part) for item, part in zip(value, each, strict=True)]
        return all(fits for fits, _ in fitted), tuple(item for _, item in fitted)
    if kind is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number, float(value) if number else value
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool), value
    plain = origin or kind
    return not isinstance(plain, type) or isinstance(value, plain), value


def _remedy(value: Any, hint: Any) -> str:
    words = [word for kind in _alternatives(hint) for word in _words(kind)]
    close = get_close_matches(value, [word.strip("'") for word in words], 1, 0.6) if isinstance(
        value, str
    ) else []  # fmt: skip
    if close:
        return f": did you mean {close[0]!r}? (It may be {_either(words)}.)"
    return f": it must be {_either(words)}."


def _words(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return [repr(choice) for choice in get_args(kind)]
    if get_origin(kind) is tuple:
        inner = " or ".join(word for part in _alternatives(get_args(kind)[0]) for word in _words(part))
        return [f"a list (of {inner.removeprefix('a ')})"]
    return [_SAID.get(kind, getattr(kind, "__name__", str(kind)))]


def _either(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
