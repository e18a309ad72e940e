"""Figures that an entry asks for with `figure:`: curves of its runs, and cosines between its tasks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from gradaccord.probe.figure import new_figure
from gradaccord.reproduce.differences import current_records
from gradaccord.reproduce.drawn import COLOURS, Drawn
from gradaccord.reproduce.entry import COSINES, Entry, Panel
from gradaccord.reproduce.records import RunRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 4.2, 3.1  # of a panel, in inches
CELL = 0.34  # of a heat map

Pair = tuple[float, float]


def curve_figures(entries: Mapping[str, Entry], results: Path) -> list[Drawn]:
    """The figures of all entries that ask for some and have runs."""
    found = []
    for entry in entries.values():
        curves = [panel for panel in entry.figure if panel.matrix is None]
        records = current_records(entry, results) if entry.figure and entry.small else []
        first = next(iter(entry.small.budgets)) if entry.small else None
        records = [record for record in records if record.budget == first]  # others are other lengths
        if any(record.curve for record in records) and curves:
            caption = (
                f"{entry.title}: means over seeds ({_seeds(records)}), with standard errors as bands."
            )
            make = partial(_curves, curves, records)
            found.append(Drawn(f"results-{entry.name}.png", caption, make, entry.name))
        if any(panel.matrix == COSINES for panel in entry.figure):
            with_matrix = [record for record in records if record.cosines is not None]
            if with_matrix:
                caption = f"{entry.title}: at the end, means over seeds ({_seeds(with_matrix)})."
                make = partial(_heat_maps, with_matrix)
                found.append(Drawn(f"results-{entry.name}-pairs.png", caption, make, entry.name))
    return found


def _seeds(records: Sequence[RunRecord]) -> str:
    """How many each arm has on each variant: 5, or 2 to 5."""
    counts = Counter((own.variant, own.arm) for own in records).values()
    few, many = min(counts), max(counts)
    return str(many) if few == many else f"{few} to {many}"


def _curves(panels: Sequence[Panel], records: Sequence[RunRecord]) -> Figure:
    """A panel for each quantity and variant; a line for each arm."""
    variants = list(dict.fromkeys(record.variant for record in records))
    arms = list(dict.fromkeys(record.arm for record in records))
    across = len(panels)
    figure = new_figure(max(WIDTH * across, 5.5), HEIGHT * len(variants) + 0.3)
    every: Any = figure.subplots(len(variants), across, squeeze=False)
    for (row, variant), (column, panel) in product(enumerate(variants), enumerate(panels)):
        axes = every[row][column]
        for place, arm in enumerate(arms):
            own = [record for record in records if (record.variant, record.arm) == (variant, arm)]
            _line(axes, panel, own, arm, COLOURS[place % len(COLOURS)])
        axes.set_xlabel(panel.x, fontsize=8)
        axes.set_ylabel(panel.label or panel.y, fontsize=8)
        axes.tick_params(labelsize=7)
        if len(variants) > 1:
            axes.set_title(variant, fontsize=9)
    labels = every[0][0].get_legend_handles_labels()
    figure.legend(*labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def _line(axes: Any, panel: Panel, records: Sequence[RunRecord], arm: str, colour: str) -> None:
    """Means over seeds, moment by moment, as long as every seed has them."""
    runs = [run for record in records if (run := list(_pairs(record, panel)))]
    moments = list(zip(*runs, strict=False))
    if not moments:
        return
    x = [fmean(first for first, _ in moment) for moment in moments]
    y = [fmean(second for _, second in moment) for moment in moments]
    errors = [_standard_error([second for _, second in moment]) for moment in moments]
    axes.plot(x, y, color=colour, lw=1.4, label=arm, marker="o", ms=3 if len(x) < 12 else 0)
    low = [mean - error for mean, error in zip(y, errors, strict=True)]
    high = [mean + error for mean, error in zip(y, errors, strict=True)]
    axes.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)


def _pairs(record: RunRecord, panel: Panel) -> Iterable[Pair]:
    """Both quantities at every moment at which both were measured."""
    if panel.y.startswith("alignment."):
        name = panel.y.removeprefix("alignment.")
        own = record.alignment
        yield from zip(own.get(f"{name}_steps", ()), own.get(name, ()), strict=True)
        return
    for point in record.curve:
        x, y = point.value(panel.x), point.value(panel.y)
        if math.isfinite(x) and math.isfinite(y):
            yield x, y


def _standard_error(values: Sequence[float]) -> float:
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def _heat_maps(records: Sequence[RunRecord]) -> Figure:
    """The mean cosine of every pair of tasks, a map for each arm."""
    arms = list(dict.fromkeys(record.arm for record in records))
    tasks = next(record.cosines.tasks for record in records if record.cosines is not None)
    side = 0.7 + CELL * len(tasks)
    figure = new_figure(side * len(arms) + 0.8, side + 0.6)
    every: Any = figure.subplots(1, len(arms), squeeze=False)[0]
    image: Any = None
    for axes, arm in zip(every, arms, strict=True):
        found = [own.cosines for own in records if own.arm == arm and own.cosines is not None]
        of_pairs = [one.matrix for one in found if one.tasks == tasks]
        mean = [
            [fmean(one[i][j] for one in of_pairs) for j in range(len(tasks))] for i in range(len(tasks))
        ]
        image = axes.imshow(mean, cmap="PuOr", vmin=-1, vmax=1)
        axes.set_xticks(range(len(tasks)), tasks, fontsize=7, rotation=90)
        axes.set_yticks(range(len(tasks)), tasks, fontsize=7)
        axes.set_title(f"{arm}, mean {fmean(one.mean for one in found):.2f}", fontsize=8)
    figure.colorbar(image, ax=list(every), label="cosine", shrink=0.8)
    return figure
