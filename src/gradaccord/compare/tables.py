"""A comparison as tables: on the terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from gradaccord.compare.comparison import AVERAGE, Comparison, Standing
from gradaccord.compare.specs import short_names
from gradaccord.compare.statistics import Difference, Mean
from gradaccord.runs import escape
from gradaccord.runs.files import write_atomic

P_COLUMNS = ("p", "Holm p", "why no p", "smallest effect")


def write_tables(comparison: Comparison, folder: Path) -> list[Path]:
    """comparison.md, .csv and .json."""
    text, sheet = folder / "comparison.md", folder / "comparison.csv"
    write_atomic(text, markdown(comparison))
    cells = io.StringIO(newline="")
    lines = _csv_lines(comparison)
    csv.writer(cells).writerows([escape.csv_cell(cell) for cell in line] for line in lines)
    write_atomic(sheet, cells.getvalue())
    comparison.write(folder)
    return [text, sheet, folder / comparison.FILE]


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
            "" if is_baseline else _with_interval(own.vs_baseline),
            "" if own.vs_control is None else _with_interval(own.vs_control),
            "baseline" if is_baseline else own.verdict,
        )
    known = comparison.references.get(AVERAGE, {})
    for what, value in known.items():
        table.add_row(what, f"{value:.2f}")
    return table


def summary_notes(comparison: Comparison) -> list[str]:
    """How to read the summary: what its columns and short names are."""
    found = [
        f"Average of the trained tasks on {comparison.split} ± standard error over seeds. Differences "
        "are in points, paired by seed, ± half of their 95 % interval. The verdict goes by p below "
        f"0.05, corrected by Holm for {comparison.tests_with_p} tests.",
        "(c) is a control: the same steps as a method's, without its idea. A method must beat it, too.",
    ]
    names = short_names(own.method for own in comparison.methods)
    found += [f"{short} is {method}." for method, short in names.items() if " (" in short]
    for own in comparison.methods:
        if own.marks:
            tasks = ", ".join(own.marks)
            found.append(f"{names[own.method]} is no better than the same answer always on {tasks}.")
    return found


def _with_interval(difference: Difference) -> str:
    if not difference.count:
        return "–"
    half = difference.half_interval
    return f"{difference.mean:+.2f}" + (f" ± {half:.2f}" if math.isfinite(half) else "")


def terminal(comparison: Comparison, width: int = 80) -> list[Table]:
    """All that is known, for the screen: as many tables as keep every number in one piece."""
    names, *rest = zip(_headings(comparison), *_rows(comparison), strict=True)
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


def markdown(comparison: Comparison) -> str:
    """The same as a Markdown table, with the remarks below it."""
    headings = _headings(comparison)
    rows = [headings, *_rows(comparison)]
    lines = [[escape.markdown(cell) for cell in row] for row in rows]
    lines.insert(1, ["---"] * len(headings))
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return text + "\n" + "".join(f"\n{escape.markdown(one)}\n" for one in comparison.remarks)


def _headings(comparison: Comparison) -> list[str]:
    metrics = comparison.metrics
    tasks = [f"{t} ({metrics[t]})" if t in metrics else t for t in comparison.columns]
    return [
        "method", AVERAGE, "vs baseline", "vs control", *tasks, "train loss", "cosine", "distance",
        "time", "processor", "gradients", "memory", "seeds",
    ]  # fmt: skip


def _rows(comparison: Comparison) -> list[list[str]]:
    """A line a method, then chance and majority below the scores."""
    found = [_cells(own, comparison) for own in comparison.methods]
    for what in ("chance", "majority") if comparison.references else ():
        known = {task: f"{own[what]:.2f}" for task, own in comparison.references.items()}
        scores = [known.get(task, "–") for task in comparison.columns]
        line = [what, known.get(AVERAGE, "–"), "–", "–", *scores]
        found.append(line + ["–"] * (len(found[0]) - len(line)))
    return found


def _cells(own: Standing, comparison: Comparison) -> list[str]:
    """One method's line."""
    seeds = str(len(own.seeds))
    for what, some in (("collapsed", own.collapsed), ("missing", own.missing)):
        seeds += f" ({len(some)} {what})" if some else ""
    return [
        own.label,
        str(own.average),
        "baseline" if own is comparison.baseline else str(own.vs_baseline),
        "–" if own.vs_control is None else f"{own.vs_control} [{own.control}]",
        *(own.marked(task) for task in comparison.columns),
        _number(own.train_loss, 3),
        _number(own.cosine, 3),
        _number(own.distance, 2),
        *(f"{cost:.2f}x" if math.isfinite(cost) else "–" for _, cost in own.costs),
        seeds,
    ]


def _block(names: tuple[str, ...], first: int, columns: list[tuple[str, ...]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(Text(names[0]), min_width=first, max_width=first, overflow="fold")
    for column in columns:
        table.add_column(Text(column[0]), justify="right", overflow="fold")
    for row in zip(names[1:], *(column[1:] for column in columns), strict=True):
        table.add_row(*map(Text, row))
    return table


def _csv_lines(comparison: Comparison) -> list[list[Any]]:
    """One line a method and task; what belongs to the method as a whole stands beside its average."""
    lines: list[list[Any]] = [
        ["method", "control", "task", "metric", "mean", "standard error", "seeds", "chance",
         "majority", "marked", "to baseline", *(f"{what} to baseline" for what in P_COLUMNS),
         "its control", "to control", *(f"{what} to control" for what in P_COLUMNS), "train loss",
         "cosine", "distance", "time", "processor", "gradients", "memory", "collapsed", "missing",
         "budget"]
    ]  # fmt: skip
    for own in comparison.methods:
        kind = "yes" if own.is_control else "no"
        for task, mean in own.scores.items():
            metric = comparison.metrics.get(task, AVERAGE)
            line = [own.method, kind, task, metric, mean.mean, mean.error, mean.count]
            known = comparison.references.get(task, {})
            line += [known.get("chance", ""), known.get("majority", ""), own.mark(task)]
            rest = len(lines[0]) - len(line)
            lines.append(line + (_whole_method(own, comparison) if task == AVERAGE else [""] * rest))
    return [["" if isinstance(v, float) and math.isnan(v) else v for v in line] for line in lines]


def _whole_method(own: Standing, comparison: Comparison) -> list[Any]:
    return [
        *_with_p(own.vs_baseline),
        own.control or "",
        *([""] * (1 + len(P_COLUMNS)) if own.vs_control is None else _with_p(own.vs_control)),
        *(mean.mean for mean in (own.train_loss, own.cosine, own.distance)),
        *(cost for _, cost in own.costs),
        len(own.collapsed),
        len(own.missing),
        "" if comparison.budget is None else comparison.budget.text,
    ]


def _with_p(difference: Difference) -> list[Any]:
    """The difference and the `P_COLUMNS`."""
    return [
        difference.mean,
        difference.p,
        difference.p_holm,
        difference.no_p,
        difference.smallest_effect,
    ]


def _number(mean: Mean, digits: int) -> str:
    return f"{mean.mean:.{digits}f}" if mean.count else "–"
