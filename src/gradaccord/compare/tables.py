"""A comparison as tables: on the terminal, as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

from rich.table import Table

from gradaccord.compare.statistics import PAIRS, Difference, Mean
from gradaccord.compare.summary import AVERAGE, Row, Summary
from gradaccord.runs.files import write_json

P_COLUMNS = ("p", "Holm p", "why no p")


def headings(summary: Summary) -> list[str]:
    """The columns, in order."""
    tasks = [f"{task} ({summary.metrics[task]})" for task in summary.tasks]
    return [
        "method", AVERAGE, "vs baseline", "vs control", *tasks, "train loss", "cosine", "distance",
        "time", "gradients", "memory", "seeds",
    ]  # fmt: skip


def cells(row: Row, summary: Summary) -> list[str]:
    """One method's line."""
    control = "–"
    if row.to_control is not None:
        control = f"{row.to_control} [{row.control}]"
    seeds = str(len(row.seeds))
    if row.collapsed:
        seeds += f" ({len(row.collapsed)} collapsed)"
    if row.missing:
        seeds += f" ({len(row.missing)} missing)"
    return [
        row.name + (" (control)" if row.spec.is_control else ""),
        str(row.scores[AVERAGE]),
        "baseline" if row.spec == summary.rows[0].spec else str(row.to_baseline),
        control,
        *(str(row.scores.get(task, Mean.of([]))) for task in summary.tasks),
        _number(row.train_loss, 3),
        _number(row.cosine, 3),
        _number(row.distance, 2),
        *(_times(row.costs[name]) for name in ("seconds", "gradients", "memory_mb")),
        seeds,
    ]


def terminal(summary: Summary, width: int = 80) -> list[Table]:
    """For the screen: tables below one another, as many as keep every number in one piece."""
    columns = list(zip(headings(summary), *(cells(row, summary) for row in summary.rows), strict=True))
    names, rest = columns[0], columns[1:]
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
    table.add_column(names[0], min_width=first, max_width=first, overflow="fold")
    for column in columns:
        table.add_column(column[0], justify="right", overflow="fold")
    for row in zip(names[1:], *(column[1:] for column in columns), strict=True):
        table.add_row(*row)
    return table


def markdown(summary: Summary) -> str:
    """The same as a Markdown table, with what is missing below it."""
    lines = [headings(summary), ["---"] * len(headings(summary))]
    lines += [cells(row, summary) for row in summary.rows]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return text + "\n" + "".join(f"\n{sentence}\n" for sentence in remarks(summary))


def remarks(summary: Summary) -> list[str]:
    """How to read the table, and which runs are not in it."""
    found = [
        f"Scores are in percent on {summary.split}, mean ± standard error over seeds; differences are "
        "paired by seed, p of a t-test, beside it p as corrected by Holm for all tests of the table "
        f"({summary.tests}); there is no p for fewer than {PAIRS} pairs of seeds or equal differences; "
        "costs are relative to the baseline; all runs had the same budget of batch gradients."
    ]
    for row in summary.rows:
        for seed, reason in row.missing.items():
            found.append(f"Missing: {row.name}, seed {seed}: {reason}.")
        if row.collapsed:
            shown = ", ".join(map(str, row.collapsed))
            found.append(f"{row.name} did not learn on seed {shown}: its cosines mean nothing there.")
    return found


def findings(summary: Summary) -> list[str]:
    """What the numbers say, by corrected p values, in a sentence or two; also when they say nothing."""
    baseline = summary.rows[0]
    if not summary.tests:
        return [
            f"No p value can be given: it takes {PAIRS} seeds of a method and of {baseline.name}, and "
            "differences that vary; nothing here can be called better or worse."
        ]
    others = [row for row in summary.rows[1:] if not row.spec.is_control and row.seeds]
    better = [r for r in others if _clear(r.to_baseline, +1) and _clear(r.to_control, +1)]
    worse = [r for r in others if _clear(r.to_baseline, -1)]
    found = []
    if better:
        shown = "; ".join(f"{r.name}, {_told(r.to_baseline)}" for r in better)
        found.append(f"Clearly better than {baseline.name} and than its control: {shown}.")
    else:
        found.append(
            f"No method is clearly better than both {baseline.name} and its own control here "
            f"({len(baseline.seeds)} seeds, p < 0.05 as corrected by Holm for {summary.tests} tests)."
        )
    if worse:
        shown = "; ".join(f"{r.name}, {_told(r.to_baseline)}" for r in worse)
        found.append(f"Clearly worse than {baseline.name}: {shown}.")
    return found


def write(summary: Summary, folder: Path) -> list[Path]:
    """comparison.md, .csv and .json."""
    (folder / "comparison.md").write_text(markdown(summary), encoding="utf-8")
    with (folder / "comparison.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(_flat(summary))
    write_json(folder / "comparison.json", to_json(summary))
    return [folder / f"comparison.{ending}" for ending in ("md", "csv", "json")]


def to_json(summary: Summary) -> dict[str, Any]:
    """Everything, ready for JSON."""
    return {
        "split": summary.split,
        "tasks": list(summary.tasks),
        "metrics": summary.metrics,
        "findings": findings(summary),
        "remarks": remarks(summary),
        "methods": [
            {
                "method": row.name,
                "is_control": row.spec.is_control,
                "seeds": list(row.seeds),
                "scores": {task: _mean(mean) for task, mean in row.scores.items()},
                "vs_baseline": _difference(row.to_baseline),
                "control": None if row.control is None else str(row.control),
                "vs_control": None if row.to_control is None else _difference(row.to_control),
                "train_loss": _mean(row.train_loss),
                "cosine": _mean(row.cosine),
                "distance": _mean(row.distance),
                "collapsed": list(row.collapsed),
                "costs": {name: _known(value) for name, value in row.costs.items()},
                "missing": {str(seed): reason for seed, reason in row.missing.items()},
            }
            for row in summary.rows
        ],
    }


def _flat(summary: Summary) -> list[list[Any]]:
    """One line a method and task, for spreadsheets; what is of the method as a whole by its average."""
    lines: list[list[Any]] = [
        ["method", "control", "task", "metric", "mean", "standard error", "seeds", "to baseline",
         *(f"{what} to baseline" for what in P_COLUMNS), "its control", "to control",
         *(f"{what} to control" for what in P_COLUMNS), "train loss", "cosine", "distance", "time",
         "gradients", "memory", "collapsed", "missing"]
    ]  # fmt: skip
    for row in summary.rows:
        for task, mean in row.scores.items():
            metric = summary.metrics.get(task, AVERAGE)
            kind = "yes" if row.spec.is_control else "no"
            line = [row.name, kind, task, metric, mean.value, mean.error, mean.count]
            rest = len(lines[0]) - len(line)
            lines.append(line + (_of_the_method(row) if task == AVERAGE else [""] * rest))
    return [["" if isinstance(v, float) and math.isnan(v) else v for v in line] for line in lines]


def _of_the_method(row: Row) -> list[Any]:
    return [
        *_numbers(row.to_baseline),
        row.control or "",
        *([""] * 4 if row.to_control is None else _numbers(row.to_control)),
        *(mean.value for mean in (row.train_loss, row.cosine, row.distance)),
        *(row.costs[name] for name in ("seconds", "gradients", "memory_mb")),
        len(row.collapsed),
        len(row.missing),
    ]


def _numbers(difference: Difference) -> list[Any]:
    """The difference and what stands in the `P_COLUMNS`."""
    return [difference.mean.value, difference.p, difference.holm, difference.no_p]


def _clear(difference: Difference | None, sign: int) -> bool:
    """Whether a difference goes this way beyond chance; no control at all counts as one passed."""
    if difference is None:
        return True
    return difference.clear and difference.mean.value * sign > 0


def _told(difference: Difference) -> str:
    return f"{difference.mean.value:+.2f}, {difference.told}"


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        **_mean(difference.mean),
        "p": _known(difference.p),
        "p_holm": _known(difference.holm),
        "no_p": difference.no_p,
    }


def _mean(mean: Mean) -> dict[str, Any]:
    return {"mean": _known(mean.value), "error": _known(mean.error), "count": mean.count}


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _times(ratio: float) -> str:
    return f"{ratio:.2f}x" if math.isfinite(ratio) else "–"


def _number(mean: Mean, digits: int) -> str:
    return "–" if not mean.count else f"{mean.value:.{digits}f}"
