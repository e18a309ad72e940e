"""What `evaluate` prints: scores with intervals, confusions, and the worst errors, at 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gradaccord.tasks.error_analysis import Confusion
from gradaccord.train.file_evaluation import FileEvaluation

MATRIX = 6  # classes whose confusions fit as a matrix
PAIRS = 10  # confusions that are listed if there are more classes
NAME = 12  # characters of a class in the matrix


def shown(found: FileEvaluation) -> Group:
    """All that `evaluate` prints."""
    return Group(*_parts(found))


def _parts(found: FileEvaluation) -> Iterator[RenderableType]:
    without = f" ({found.unlabelled:,} more have no label)" if found.unlabelled else ""
    yield Text(f"{found.task} ({found.kind}): {found.examples:,} examples of {found.file}{without}")
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("metric, %")
    for heading in ("score", "95 % interval", "chance", "majority"):
        table.add_column(heading, justify="right")
    for metric, own in found.scores.items():
        beside = ("", "")
        if metric == found.metric:
            beside = (f"{found.reference.chance:.2f}", f"{found.reference.majority:.2f}")
        table.add_row(metric, f"{own.value:.2f}", f"{own.low:.2f} to {own.high:.2f}", *beside)
    yield table
    if found.reference.mark:
        yield Text(f"Warning: {found.reference.mark}.")
    if found.errors.confusion is not None:
        yield Text("\nTruth by row, prediction by column:" if _fits(found) else "\nConfusions:")
        yield _confusion(found.errors.confusion)
    yield Text(f"\n{found.errors.wrong:,} of {found.errors.examples:,} are wrong" + _first(found))
    if found.errors.worst:
        yield _worst(found)


def _fits(found: FileEvaluation) -> bool:
    return found.errors.confusion is not None and len(found.errors.confusion.labels) <= MATRIX


def _first(found: FileEvaluation) -> str:
    if not found.errors.worst:
        return "."
    ranked = any(one.by is not None for one in found.errors.worst)
    return "; the furthest off:" if ranked else "; some of them:"


def _confusion(confusion: Confusion) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    if len(confusion.labels) <= MATRIX:
        for heading in ("", *confusion.labels):
            table.add_column(Text(_cut(heading)), justify="right", no_wrap=True)
        for label, counts in zip(confusion.labels, confusion.counts, strict=True):
            table.add_row(Text(_cut(label)), *(f"{count:,}" for count in counts))
        return table
    pairs = [
        (count, truth, predicted)
        for truth, counts in zip(confusion.labels, confusion.counts, strict=True)
        for predicted, count in zip(confusion.labels, counts, strict=True)
        if truth != predicted and count
    ]
    for heading in ("count", "truth", "prediction"):
        table.add_column(heading)
    for count, truth, predicted in sorted(pairs, key=lambda one: -one[0])[:PAIRS]:
        table.add_row(f"{count:,}", Text(truth), Text(predicted))
    return table


def _worst(found: FileEvaluation) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("truth", "prediction"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis", max_width=14)
    table.add_column("off by", justify="right")
    table.add_column("text")
    for one in found.errors.worst:
        by = "" if one.by is None else f"{one.by:.3g}"
        table.add_row(Text(_value(one.gold)), Text(_value(one.predicted)), by, Text(one.text))
    return table


def _value(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cut(name: str) -> str:
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"
