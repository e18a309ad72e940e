"""Docstrings as pages need them: what a class is, its update, notes and options, each apart.

As an extension of Griffe it also makes lists of the options in the reference.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any

import griffe

OPTION = re.compile(r"^([a-z_]\w*(?:, [a-z_]\w*)*): (.+(?:\n    +.+)*)", re.M)


@dataclass(frozen=True)
class Parts:
    """lead: the first paragraph; update: the indented block after it; notes: all other text."""

    lead: str
    update: str
    notes: str
    options: dict[str, str]


def parts_of(cls: Any) -> Parts:
    """The parts of a class's own docstring; options also those of its bases."""
    options: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("gradaccord") and base.__dict__.get("__doc__"):
            options |= options_in(inspect.cleandoc(base.__doc__))
    lead, update, notes = "", "", []
    for paragraph in inspect.cleandoc(cls.__doc__).split("\n\n"):
        if not lead:
            lead = paragraph
        elif paragraph.startswith("    ") and not update:
            update = inspect.cleandoc(paragraph)
        elif not OPTION.match(paragraph):
            notes.append(paragraph)
    return Parts(_joined(lead), update, "\n\n".join(notes), options)


def options_in(text: str) -> dict[str, str]:
    """What a docstring says of each option."""
    found = {}
    for match in OPTION.finditer(text):
        for name in match[1].split(", "):
            found[name] = _joined(match[2])
    return found


def _joined(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text)


def with_lists(text: str) -> str:
    """The docstring with its options as a list."""

    def item(match: re.Match[str]) -> str:
        names = ", ".join(f"`{name}`" for name in match[1].split(", "))
        return f"* {names}: {_joined(match[2])}"

    paragraphs = []
    for paragraph in text.split("\n\n"):
        lines = OPTION.sub(item, paragraph) if OPTION.match(paragraph) else paragraph
        paragraphs.append(lines)
    return "\n\n".join(paragraphs)


class Lists(griffe.Extension):
    """Every docstring of the reference, with its options as a list."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Griffe calls this for each object that it has read."""
        if obj.docstring and not obj.is_module:
            obj.docstring.value = with_lists(inspect.cleandoc(obj.docstring.value))
