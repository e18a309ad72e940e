"""Answers as the official scripts compare them: SQuAD's normalisation, and MLQA's by language.

SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018), which XQuAD, TyDiQA-GoldP and the MRQA sets (NewsQA)
are scored with in all their languages: lower case, ASCII punctuation removed, then English articles.
MLQA (Lewis et al. 2020): Unicode punctuation, the articles of the context's language, and Chinese
cut into single characters.
"""

from __future__ import annotations

import re
import string
import sys
import unicodedata
from functools import lru_cache
from typing import Literal

Normalisation = Literal["squad", "mlqa"]

_ASCII_PUNCTUATION = dict.fromkeys(map(ord, string.punctuation))
_ENGLISH = re.compile(r"\b(a|an|the)\b")
# None: the script removes none (Hindi and Chinese have no articles).
_ARTICLES: dict[str, re.Pattern[str] | None] = {
    "en": _ENGLISH,
    "es": re.compile(r"\b(un|una|unos|unas|el|la|los|las)\b"),
    "hi": None,
    "vi": re.compile(r"\b(của|là|cái|chiếc|những)\b"),
    "de": re.compile(r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b"),
    # Within words too: so does the script, whose other alternative can never match.
    "ar": re.compile("ال"),
    "zh": None,
}
_HAN = re.compile("([\u4e00-\u9fa5])")

MLQA_LANGUAGES = tuple(_ARTICLES)


def normalised(text: str, how: Normalisation, language: str = "en") -> list[str]:
    """The words of an answer that are compared; none if it is all articles and punctuation."""
    if how == "squad":
        return _ENGLISH.sub(" ", text.lower().translate(_ASCII_PUNCTUATION)).split()
    check_language(how, language)
    text = text.lower().translate(_unicode_punctuation())
    articles = _ARTICLES[language]
    if articles is not None:
        text = articles.sub(" ", text)
    if language == "zh":
        text = _HAN.sub(r" \1 ", text)
    return text.split()


def check_language(how: Normalisation, language: str) -> None:
    """MLQA's script knows its own seven languages only."""
    if how == "mlqa" and language not in _ARTICLES:
        raise ValueError(
            f"`normalise` is 'mlqa' and an example's language is {language!r}: MLQA's script knows "
            f"{', '.join(MLQA_LANGUAGES)}; use 'squad' for others."
        )


@lru_cache(maxsize=1)
def _unicode_punctuation() -> dict[int, None]:
    points = (i for i in range(sys.maxunicode) if unicodedata.category(chr(i)).startswith("P"))
    return dict.fromkeys(points) | _ASCII_PUNCTUATION
