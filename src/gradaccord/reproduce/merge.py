"""Overrides of a configuration, merged as plain values before it is checked."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

LENGTHS = ("epochs", "steps", "gradients", "seconds")  # keys of `train`, one of which sets the length
NAMED = ("method", "model", "sampler", "optimizer")  # a name, or a mapping with one


def merged(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `base` with the override's values, mappings merged key by key.

    A mapping with a `name` (a method, a model...) replaces the whole mapping, with its options; a task
    that is null is left out; one of the lengths of a run replaces the others.
    """
    found = copy.deepcopy(dict(base))
    if any(override.get(length) is not None for length in LENGTHS):
        for length in LENGTHS:
            found.pop(length, None)
    for key, value in override.items():
        before = found.get(key)
        if key in NAMED and isinstance(before, str):
            before = {"name": before}
        if key == "tasks" and isinstance(before, dict) and isinstance(value, Mapping):
            found[key] = _tasks(before, value)
        elif isinstance(before, dict) and isinstance(value, Mapping) and "name" not in value:
            found[key] = merged(before, value)
        else:
            found[key] = copy.deepcopy(value)
    return found


def _tasks(before: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: {"data": own} if isinstance(own, str) else own for name, own in before.items()}
    wanted = merged(given, value)
    return {name: own for name, own in wanted.items() if own is not None}
