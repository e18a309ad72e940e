"""Misspelled names: the known name that is meant, and what to say if there is none."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def canonical(name: str, known: Iterable[str]) -> str:
    """The known name spelled like this, apart from capitals, hyphens and underscores; else `name`."""
    return next((own for own in known if _bare(own) == _bare(name)), name)


def _bare(name: str) -> str:
    return name.strip().lower().replace("_", "").replace("-", "")


def closest(wrong: str, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """The known name most like a wrong one; None if none is. cutoff: 0 (all are) to 1 (none is)."""
    return next(iter(get_close_matches(wrong, list(known), 1, cutoff)), None)


def nearest(wrong: str, known: Iterable[str], listed: str = "there are") -> str:
    """The remedy: the name that was probably meant, or all names. listed: the words before these."""
    names = list(known)
    close = closest(wrong, names)
    if close:
        return f"did you mean {close!r}?"
    return f"{listed} {', '.join(names)}." if names else "leave it out."
