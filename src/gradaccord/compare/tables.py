"""A comparison as tables: as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

from gradaccord.compare.comparison import AVERAGE, Comparison, NoSkill, Standing
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


def markdown(comparison: Comparison) -> str:
    """A Markdown table of all results, with the remarks below it."""
    lines = [[escape.markdown(cell) for cell in row] for row in rows(comparison)]
    lines.insert(1, ["---"] * len(lines[0]))
    text = "\n".join(map(escape.table_row, lines))
    return text + "\n" + "".join(f"\n{escape.markdown(one)}\n" for one in comparison.remarks)


def _headings(comparison: Comparison) -> list[str]:
    metrics = comparison.metrics
    tasks = [f"{t} ({metrics[t]})" if t in metrics else t for t in comparison.columns]
    return [
        "method", AVERAGE, "vs baseline", "vs control", *tasks, "train loss", "cosine", "distance",
        "time", "processor", "gradients", "memory", "seeds",
    ]  # fmt: skip


def rows(comparison: Comparison) -> list[list[str]]:
    """The headings, a line per method, then chance and majority below the scores."""
    found = [_headings(comparison), *(_cells(own, comparison) for own in comparison.methods)]
    for what in NoSkill.model_fields if comparison.references else ():
        known = {task: f"{getattr(own, what):.2f}" for task, own in comparison.references.items()}
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


def _csv_lines(comparison: Comparison) -> list[list[Any]]:
    """One line per method and task; what belongs to the method as a whole is beside its average."""
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
            known = comparison.references.get(task)
            line += [known.chance, known.majority] if known is not None else ["", ""]
            line.append(own.mark(task))
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
