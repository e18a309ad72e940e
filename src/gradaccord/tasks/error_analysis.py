"""Where a model is wrong: confusions, the spread of errors, and the worst examples with their texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gradaccord.tasks.task import Task

BINS = 20
TEXT = 300  # characters of a text that are kept


@dataclass(frozen=True)
class Wrong:
    """One example that the model got wrong.

    by: how far off: |prediction - truth| of a number, the loss of a class, 100 minus an
        answer's score; None if it is not known.
    """

    id: str
    text: str
    gold: Any
    predicted: Any
    by: float | None = None


@dataclass(frozen=True)
class Confusion:
    """counts[i][j]: how often class i was taken for class j."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if [len(row) for row in self.counts] != [len(self.labels)] * len(self.labels):
            raise ValueError("`counts` must have a row and a column for each label")


@dataclass(frozen=True)
class Histogram:
    """How many errors (prediction minus truth) lie between two edges."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.counts or len(self.edges) != len(self.counts) + 1:
            raise ValueError("`edges` must be one longer than `counts`")


@dataclass(frozen=True)
class Analysis:
    """The errors of one task on one split."""

    examples: int  # that are labelled
    wrong: int
    worst: tuple[Wrong, ...] = ()
    confusion: Confusion | None = None
    histogram: Histogram | None = None


def analyse(
    task: Task[Any],
    examples: Sequence[Any],
    predictions: Sequence[Any],
    *,
    rows: Sequence[Any] | None = None,
    worst: int = 10,
) -> Analysis:
    """Compare predictions with the truth. worst: how many examples are kept with their texts.

    rows: what `evaluate` read of every row; with them the worst examples of a task with classes are
        those with the highest loss, the ones that the model was surest of.
    """
    if len(examples) != len(predictions):
        raise ValueError(
            f"There are {len(predictions)} predictions for {len(examples)} examples: give one each."
        )
    known = rows if rows is not None and len(rows) == len(examples) else [None] * len(examples)
    compared = [
        (example, _plain(task.gold(example)), _plain(predicted), row)
        for example, predicted, row in zip(examples, predictions, known, strict=True)
    ]
    compared = [one for one in compared if one[1] is not None]
    wrong = [
        Wrong(
            id=str(example.id),
            text=_cut(example.shown),
            gold=gold,
            predicted=predicted,
            by=task.error(example, gold, predicted, row),
        )
        for example, gold, predicted, row in compared
        if not task.is_right(example, gold, predicted)
    ]
    wrong.sort(key=lambda one: -(one.by or 0.0))  # stable: in order where nothing is known
    pairs = [(gold, predicted) for _, gold, predicted, _ in compared]
    return Analysis(
        examples=len(compared),
        wrong=len(wrong),
        worst=tuple(wrong[:worst]),
        confusion=_confusion(task, pairs),
        histogram=_histogram([task.signed_error(gold, predicted) for gold, predicted in pairs]),
    )


def _confusion(task: Task[Any], pairs: Sequence[tuple[Any, Any]]) -> Confusion | None:
    labels = task.class_names
    if not labels:
        return None
    counted = Counter(pair for gold, predicted in pairs for pair in task.class_pairs(gold, predicted))
    return Confusion(labels, tuple(tuple(counted[gold, p] for p in labels) for gold in labels))


def _histogram(errors: Sequence[float | None]) -> Histogram | None:
    known = [error for error in errors if error is not None and math.isfinite(error)]
    if not known:
        return None
    reach = max(abs(error) for error in known) or 1.0
    width = 2 * reach / BINS
    counts = [0] * BINS
    for error in known:
        counts[min(int((error + reach) / width), BINS - 1)] += 1
    return Histogram(tuple(-reach + i * width for i in range(BINS + 1)), tuple(counts))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _cut(text: str) -> str:
    return text if len(text) <= TEXT else text[: TEXT - 1] + "…"
