"""The figures of `docs/results.md`: all primary tests in one picture, the valley, curves of entries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gradaccord.probe.figure import new_figure
from gradaccord.reproduce.curve_figures import curve_figures
from gradaccord.reproduce.differences import current_records
from gradaccord.reproduce.drawn import COLOURS, Drawn
from gradaccord.reproduce.entry import Entry
from gradaccord.reproduce.verdict import status_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VALLEY = "controls-valley"
GREY = "#888888"


def primary_tests(entries: Mapping[str, Entry], results: Path) -> Drawn | None:
    """Every primary test with a result, in units of the smallest effect worth having."""
    rows = []
    for name, entry in entries.items():
        status = status_of(entry, results)
        test = status.primary if status.verdict != "not run" else None
        if test is not None and entry.small is not None and entry.small.primary is not None:
            unit = entry.small.primary.smallest_effect
            label = f"{name}\n{test.arm} against {test.against}"
            half = test.half / unit if math.isfinite(test.half) else 0.0
            decides = status.verdict != "not testable here"
            rows.append((label, test.gain / unit, half, test.difference.clear, decides))
    if not rows:
        return None

    def make() -> Figure:
        figure = new_figure(7.5, 1.1 + 0.55 * len(rows))
        axes = figure.add_subplot()
        for place, (_, gain, half, clear, decides) in enumerate(rows):
            colour = COLOURS[0] if clear else GREY
            axes.plot([gain - half, gain + half], [place, place], color=colour, lw=2)
            axes.plot([gain], [place], "o", color=colour, mfc=colour if decides else "white")
        axes.axvline(0, color="black", lw=0.8)
        axes.axvline(1, color=COLOURS[1], lw=0.8, ls="--")
        axes.set_yticks(range(len(rows)), [label for label, *_ in rows], fontsize=8)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xscale("symlog", linthresh=2, linscale=1.5)
        ticks = (-30, -10, -3, -1, 0, 1, 3, 10, 30)
        axes.set_xticks(ticks, [f"{tick}" for tick in ticks], fontsize=8)
        axes.grid(axis="x", color="0.9", lw=0.6)
        axes.set_axisbelow(True)
        label = "gain, in units of the smallest effect worth having (dashed); logarithmic beyond 2"
        axes.set_xlabel(label, fontsize=8)
        return figure

    caption = (
        "Primary tests: gains with 95 % intervals; grey where p, corrected, is 0.05 or more, hollow "
        "where the method has trained less or the test cannot decide."
    )
    return Drawn("results-primary.png", caption, make)


def valley(entries: Mapping[str, Entry], results: Path) -> Drawn | None:
    """The summed loss over the steps, one line per start."""
    entry = entries.get(VALLEY)
    records = current_records(entry, results) if entry else []
    if not records:
        return None

    def make() -> Figure:
        figure = new_figure(7.5, 3.2)
        axes = figure.add_subplot()
        for place, arm in enumerate(dict.fromkeys(record.arm for record in records)):
            own = [record for record in records if record.arm == arm]
            for i, record in enumerate(own):
                steps = [point.step for point in record.curve]
                losses = [point.values["loss"] for point in record.curve]
                label = arm if i == 0 else None
                axes.plot(steps, losses, color=COLOURS[place], lw=0.9, alpha=0.7, label=label)
        axes.set_xlabel("steps", fontsize=8)
        axes.set_ylabel("summed loss", fontsize=8)
        axes.legend(frameon=False, fontsize=8)
        return figure

    caption = "The two-task valley: the summed loss over the steps, a line for each start."
    return Drawn("results-valley.png", caption, make, VALLEY)


def drawings(entries: Mapping[str, Entry], results: Path) -> list[Drawn]:
    """The figures for which there are records."""
    made = [primary_tests(entries, results), valley(entries, results)]
    return [drawn for drawn in made if drawn is not None] + curve_figures(entries, results)
