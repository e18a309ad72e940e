"""What to say about a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(wrong: str, known: Iterable[str], listed: str = "there are") -> str:
    """The remedy: the name that was probably meant, or all there are. listed: what stands before."""
    names = list(known)
    close = get_close_matches(wrong, names, 1, 0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"{listed} {', '.join(names)}." if names else "leave it out."
