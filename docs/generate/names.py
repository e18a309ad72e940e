"""The reference: one entry for every public name of a room, read from the room itself."""

from __future__ import annotations

from importlib import import_module

from gradaccord.methods.registry import ADDITIONS, METHODS, Named


def public_names(where: str) -> list[str]:
    """The public names of a room; of the root, those of one group ("gradaccord combine")."""
    room, _, group = where.partition(" ")
    names = [name for name in import_module(room).__all__ if name != "__version__"]
    if not group:
        return [f"{room}.{name}" for name in names]
    groups = {entry.class_name: entry.home.partition(".")[0] for entry in _entries()}
    return [f"{room}.{name}" for name in names if groups.get(name, "core") == group]


def _entries() -> list[Named]:
    return [*METHODS.values(), *ADDITIONS.values()]


def reference_of(where: str) -> str:
    """Their entries; mkdocstrings fills them in."""
    return "\n\n".join(f"::: {name}" for name in public_names(where))
