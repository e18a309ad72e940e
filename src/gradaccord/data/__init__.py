"""Where examples come from: readers and sets that need no download."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradaccord.data.dataset import Dataset as Dataset
    from gradaccord.data.files.own_files import read as read
    from gradaccord.data.registry import find as find
    from gradaccord.data.registry import load as load
    from gradaccord.data.splits import cut as cut

_HOMES = {
    "load": "registry",
    "find": "registry",
    "read": "files.own_files",
    "cut": "splits",
    "Dataset": "dataset",
}

__all__ = ["Dataset", "cut", "find", "load", "read"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
