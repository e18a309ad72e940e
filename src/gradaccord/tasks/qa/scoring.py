"""F1 and exact match of answers as the official scripts have them, and the best null threshold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gradaccord.data.examples import Question
from gradaccord.tasks.qa.normalise import Normalisation, normalised


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
    """F1 and exact match against whichever gold answer fits best, each of its own."""
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
