"""F1 and exact match of answers as the official scripts compute them, and the best null threshold.

Answers are compared normalised. "squad" (Rajpurkar et al. 2016, 2018; also XQuAD, TyDiQA-GoldP and the
MRQA sets, in all their languages): lower case, ASCII punctuation removed, then English articles. "mlqa"
(Lewis et al. 2020): Unicode punctuation, the articles of the context's language, and Chinese cut into
single characters.
"""

from __future__ import annotations

import math
import re
import string
import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from gradaccord.data.examples import Question

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


def normalised(text: str, how: Normalisation, language: str = "en") -> list[str]:
    """The words of an answer that are compared; none if it is all articles and punctuation."""
    if how == "squad":
        return _ENGLISH.sub(" ", text.lower().translate(_ASCII_PUNCTUATION)).split()
    if language not in _ARTICLES:
        raise ValueError(
            f"`normalise` is 'mlqa' and an example's language is {language!r}: MLQA's script knows "
            f"{', '.join(_ARTICLES)}; use 'squad' for others."
        )
    text = text.lower().translate(_unicode_punctuation())
    articles = _ARTICLES[language]
    if articles is not None:
        text = articles.sub(" ", text)
    if language == "zh":
        text = _HAN.sub(r" \1 ", text)
    return text.split()


@lru_cache(maxsize=1)
def _unicode_punctuation() -> dict[int, None]:
    points = (i for i in range(sys.maxunicode) if unicodedata.category(chr(i)).startswith("P"))
    return dict.fromkeys(points) | _ASCII_PUNCTUATION


def compare(
    predicted: Sequence[str], gold: Sequence[str], *, unanswerable: bool
) -> tuple[float, float]:
    """F1 over words, and whether all are equal, of two normalised answers.

    Two that are both empty share no word: F1 0 by the scripts of SQuAD 1.1 and MLQA, which then do
    not agree with their own exact match; 1 by that of SQuAD 2.
    """
    exact = float(list(predicted) == list(gold))
    if unanswerable and not (predicted and gold):
        return exact, exact
    common = sum((Counter(predicted) & Counter(gold)).values())
    if not common:
        return 0.0, exact
    return 2 * common / (len(predicted) + len(gold)), exact


def best_match(
    prediction: str, example: Question, how: Normalisation, *, unanswerable: bool
) -> tuple[float, float]:
    """F1 and exact match, each against the gold answer that it fits best."""
    language = example.language.split("-")[0]  # "de-en" asks in English of a German context
    golds = [normalised(answer, how, language) for answer in example.answers]
    if unanswerable:  # an answer of which nothing is left does not count; none at all: the empty one
        golds = [gold for gold in golds if gold] or [[]]
    words = normalised(prediction, how, language)
    matches = [compare(words, gold, unanswerable=unanswerable) for gold in golds]
    return max(f1 for f1, _ in matches), max(exact for _, exact in matches)


@dataclass(frozen=True)
class NullThreshold:
    """A threshold of the null odds (above: no answer), and the score in percent that it gives."""

    threshold: float
    score: float


def best_null_threshold(
    scores: Sequence[float], answered: Sequence[bool], answerable: Sequence[bool], odds: Sequence[float]
) -> NullThreshold:
    """The threshold with the highest score over all questions (SQuAD 2's procedure, one sort).

    scores: of each question's answer as predicted without a threshold, 0..1.
    answered: whether that answer is not empty. odds: the higher, the likelier there is no answer.

    Differs from the official script where odds are tied: those questions get an answer together,
    as any threshold does, so that the score is one that the threshold really gives.
    """
    order = sorted(range(len(odds)), key=odds.__getitem__)
    current = float(sum(not has for has in answerable))  # nothing answered yet
    best, threshold = current, math.nextafter(min(odds), -math.inf)
    for rank, place in enumerate(order):
        current += scores[place] if answerable[place] else -float(answered[place])
        last_of_tie = rank + 1 == len(order) or odds[order[rank + 1]] != odds[place]
        if last_of_tie and current > best:
            best, threshold = current, odds[place]
    return NullThreshold(threshold, 100 * best / len(odds))
