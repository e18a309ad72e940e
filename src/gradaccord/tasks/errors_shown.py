"""An error analysis as a picture and on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradaccord.tasks.errors import Analysis, Confusion, Histogram

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Group


def terminal(analysis: Analysis) -> Group:
    """Confusions or the histogram, then the worst examples."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[Any] = [Text(f"{analysis.wrong:,} of {analysis.examples:,} wrong")]
    if analysis.confusion is not None:
        table = Table("truth, taken for", *analysis.confusion.labels, box=None, pad_edge=False)
        for label, row in zip(analysis.confusion.labels, analysis.confusion.counts, strict=True):
            table.add_row(label, *(f"{count:,}" for count in row))
        parts.append(table)
    if analysis.histogram is not None:
        most = max(analysis.histogram.counts) or 1
        edges = analysis.histogram.edges
        for low, high, count in zip(edges[:-1], edges[1:], analysis.histogram.counts, strict=True):
            parts.append(
                Text(f"{low:+6.2f} to {high:+6.2f} {count:6,} {'█' * round(30 * count / most)}")
            )
    for one in analysis.worst:
        parts.append(Text(f"{one.gold} taken for {one.predicted}: {one.text}"))
    return Group(*parts)


def figure(analysis: Analysis) -> Figure | None:
    """The confusion matrix or the histogram; None if there is neither."""
    if analysis.confusion is not None:
        return _matrix(analysis.confusion)
    if analysis.histogram is not None:
        return _bars(analysis.histogram)
    return None


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
