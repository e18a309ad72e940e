"""Contexts cut finer than the tokenizer would, so that an answer inside a token can be pointed at.

A space is put where a token must not go on; characters are still counted in the context as it was.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Split = Literal["tokenizer", "fine"]


@dataclass(frozen=True)
class Spaced:
    """A context with spaces put in before some of its characters."""

    text: str
    spaces: NDArray[np.int64]  # their places in `text`, ascending

    @classmethod
    def of(cls, context: str, breaks: Iterable[int]) -> Spaced:
        """breaks: places of the context where a token must begin."""
        places = sorted(set(breaks))
        bounds = [0, *places, len(context)]
        pieces = (context[start:end] for start, end in pairwise(bounds))
        return cls(" ".join(pieces), np.array(places, np.int64) + np.arange(len(places)))

    def original(self, places: NDArray[np.int32]) -> NDArray[np.int32]:
        """Places in `text` as places in the context."""
        return (places - np.searchsorted(self.spaces, places, "left")).astype(np.int32)


def fine_breaks(context: str) -> list[int]:
    """Around punctuation, before a capital after a small letter, between letters and digits, between
    digits, and between letters of scripts without case (Hangul, Thai, Arabic)."""
    kinds = [_kind(character) for character in context]
    return [
        place
        for place, (before, after) in enumerate(pairwise(kinds), 1)
        if before + after not in _TOGETHER
    ]


def inside(spans: Iterable[tuple[int, int]]) -> Iterable[int]:
    """A break before every character of the spans but the first."""
    return (place for start, end in spans for place in range(start + 1, end))


# s space, u capital, l small letter; o letter without case; d digit; p punctuation and symbols; m mark
_TOGETHER = {a + b for a in "suldopm" for b in "suldopm" if "s" in (a, b) or b == "m"} | {
    "ll",
    "uu",
    "ul",
    "ml",
    "mu",
}


@lru_cache(maxsize=4096)
def _kind(character: str) -> str:
    if character.isspace():
        return "s"
    category = unicodedata.category(character)
    return {"Lu": "u", "Lt": "u", "Ll": "l", "Nd": "d"}.get(
        category, {"L": "o", "M": "m"}.get(category[0], "m" if category == "Cf" else "p")
    )
