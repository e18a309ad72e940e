"""What a comparison or a sweep shows on a terminal: its progress, and its tables at the end."""

from __future__ import annotations

import math

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from gradaccord.cli import screen
from gradaccord.compare.comparison import AVERAGE, Comparison
from gradaccord.compare.processes import Progress
from gradaccord.compare.specs import short_names
from gradaccord.compare.tables import rows
from gradaccord.runs.duration import duration


class Screen(screen.Screen[Progress]):
    """Pass `show` to `run_all` inside `with running()`."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, _picture, _line, refresh=1.0, line_every=15.0)
        self._last = -math.inf  # the first line comes at once
        self._reported: set[int] = set()

    def show(self, progress: Progress) -> None:
        """Draw the progress if it is time to; a run that failed is reported at once."""
        for run in progress.runs:
            if run.failure is not None and id(run) not in self._reported:
                self._reported.add(id(run))
                self.say(f"{run.label}, {run.failure}")
        super().show(progress)


def _done(progress: Progress) -> str:
    return f"{sum(run.done for run in progress.runs)} of {len(progress.runs)} runs"


def _line(progress: Progress) -> str:
    return f"{_done(progress)}, {progress.share:.0%}, {_left(progress)}"


def _left(progress: Progress) -> str:
    """The time left; while no run takes steps, what the runs do instead."""
    doing = [run.now.partition(",")[0] for run in progress.runs if run.going]
    if doing and all(doing):
        return ", ".join(dict.fromkeys(doing))
    return f"{duration(progress.seconds_left)} left"


def _picture(progress: Progress) -> Group:
    bar = screen.bar(_done(progress), progress.share, _left(progress))
    active = [run for run in progress.runs if run.going]
    lines = [f"  {run.label}: {run.share:.0%}{run.now and ', '}{run.now}" for run in active]
    return Group(bar, *(Text(line, style="dim") for line in lines))


def summary_table(comparison: Comparison) -> Table:
    """For the screen: average, differences and verdict of each method, by short names."""
    names = short_names(own.method for own in comparison.methods)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("method")
    for heading in ("average, %", "to baseline", "to control"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", max_width=len("control as"))
    for own in comparison.methods:
        is_baseline = own is comparison.baseline
        table.add_row(
            Text(names[own.method] + (" (c)" if own.is_control else "")),
            str(own.average),
            "" if is_baseline else own.vs_baseline.with_interval,
            "" if own.vs_control is None else own.vs_control.with_interval,
            "baseline" if is_baseline else own.verdict,
        )
    for what, value in comparison.references.get(AVERAGE, ()):
        table.add_row(what, f"{value:.2f}")
    return table


def summary_notes(comparison: Comparison) -> list[str]:
    """How to read the summary: what its columns and short names are."""
    found = [
        f"Average of the trained tasks on {comparison.split} ± standard error over seeds. Differences "
        f"are in points, paired by seed, ± half of their 95 % interval; {comparison.verdicts_by}.",
    ]
    if any(own.is_control for own in comparison.methods):
        found.append(
            "(c) is a control: the same steps as a method's, without its idea. A method must beat it, "
            "too."
        )
    names = short_names(own.method for own in comparison.methods)
    found += [f"{short} is {method}." for method, short in names.items() if " (" in short]
    marked: dict[str, list[str]] = {}  # tasks -> methods
    for own in comparison.methods:
        if own.marks:
            marked.setdefault(", ".join(own.marks), []).append(names[own.method])
    if marked:
        each = (f"{', '.join(methods)} on {tasks}" for tasks, methods in marked.items())
        found.append(f"No better than a constant prediction: {'; '.join(each)}.")
    return found


def terminal(comparison: Comparison, width: int = 80) -> list[Table]:
    """All results for the screen, in as many tables as it takes to keep every number on one line."""
    names, *rest = zip(*rows(comparison), strict=True)
    first = min(max(map(len, names)), max(width // 3, 12))
    blocks: list[list[tuple[str, ...]]] = []
    room = 0
    for column in rest:
        wide = 2 + max(map(len, column))
        if wide > room:
            blocks.append([])
            room = width - first
        blocks[-1].append(column)
        room -= wide
    return [_block(names, first, block) for block in blocks]


def _block(names: tuple[str, ...], first: int, columns: list[tuple[str, ...]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(Text(names[0]), min_width=first, max_width=first, overflow="fold")
    for column in columns:
        table.add_column(Text(column[0]), justify="right", overflow="fold")
    for row in zip(names[1:], *(column[1:] for column in columns), strict=True):
        table.add_row(*map(Text, row))
    return table
