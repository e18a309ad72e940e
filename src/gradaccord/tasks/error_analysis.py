"""Where a model is wrong: confusions, the spread of errors, and the worst examples with their texts."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from gradaccord.tasks.task import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Group

BINS = 20
TEXT = 300  # characters of a text that are kept


@dataclass(frozen=True)
class Wrong:
    """One example that the model got wrong.

    by: how far off: |prediction - truth| of a number, the loss of a class, what an answer's score lacks
        to 100; None if it is not known.
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


@dataclass(frozen=True)
class Histogram:
    """How many errors (prediction minus truth) lie between two edges."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Analysis:
    """The errors of one task on one split."""

    examples: int  # that are labelled
    wrong: int
    worst: tuple[Wrong, ...] = field(default_factory=tuple)
    confusion: Confusion | None = None
    histogram: Histogram | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain

    def show(self) -> Group:
        """For the terminal: confusions or the histogram, then the worst examples."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        parts: list[Any] = [Text(f"{self.wrong:,} of {self.examples:,} wrong")]
        if self.confusion is not None:
            table = Table("truth, taken for", *self.confusion.labels, box=None, pad_edge=False)
            for label, row in zip(self.confusion.labels, self.confusion.counts, strict=True):
                table.add_row(label, *(f"{count:,}" for count in row))
            parts.append(table)
        if self.histogram is not None:
            most = max(self.histogram.counts) or 1
            edges = self.histogram.edges
            for low, high, count in zip(edges[:-1], edges[1:], self.histogram.counts, strict=True):
                parts.append(
                    Text(f"{low:+6.2f} to {high:+6.2f} {count:6,} {'█' * round(30 * count / most)}")
                )
        for one in self.worst:
            parts.append(Text(f"{one.gold} taken for {one.predicted}: {one.text}"))
        return Group(*parts)

    def figure(self) -> Figure | None:
        """The confusion matrix or the histogram as a picture; None if there is neither."""
        if self.confusion is not None:
            return _matrix(self.confusion)
        return None if self.histogram is None else _bars(self.histogram)


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


def _matrix(confusion: Confusion) -> Figure:
    n = len(confusion.labels)
    made = _new(2.5 + 0.6 * n, 2.2 + 0.6 * n)
    axes = made.add_subplot()
    shares = [[c / (sum(row) or 1) for c in row] for row in confusion.counts]
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(n), confusion.labels, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(n), confusion.labels)
    axes.set_xlabel("prediction")
    axes.set_ylabel("truth")
    for i, row in enumerate(confusion.counts):
        for j, count in enumerate(row):
            ink = "white" if shares[i][j] > 0.6 else "black"
            axes.text(j, i, f"{count:,}", ha="center", va="center", color=ink, fontsize=8)
    return made


def _bars(histogram: Histogram) -> Figure:
    made = _new(6, 3.2)
    axes = made.add_subplot()
    widths = [b - a for a, b in zip(histogram.edges[:-1], histogram.edges[1:], strict=True)]
    axes.bar(histogram.edges[:-1], histogram.counts, widths, align="edge", edgecolor="white")
    axes.set_xlabel("prediction − truth")
    axes.set_ylabel("examples")
    return made


def _new(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")
