"""The tables of a run or a comparison: scores, differences, costs and the worst examples."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from gradaccord.compare.comparison import AVERAGE, UNSEEN, NoSkill, Standing
from gradaccord.compare.statistics import PAIRS, Difference, Mean, corrected, short_p
from gradaccord.compare.summary import scores_by_seed
from gradaccord.report.charts import CURVE
from gradaccord.report.data import FinishedRun, ReportData
from gradaccord.report.section import NONE, Cell, Table, mean_cell, named, number_cell
from gradaccord.report.svg import cut
from gradaccord.tasks.references import Reference

MANY = 4  # tables of worst examples; more are folded


def leaderboard(data: ReportData) -> Table | None:
    """All methods, the best first, with what alignment costs in loss and time."""
    comparison = data.comparison
    if comparison is None:
        return None
    rows = [
        [
            named(data.label(own)),
            mean_cell(own.average),
            Cell(NONE) if own is comparison.baseline else _difference(own.vs_baseline),
            _difference(own.vs_control),
            named("baseline" if own is comparison.baseline else own.verdict),
            number_cell(own.train_loss.mean, "{:.3f}"),
            number_cell(own.cosine.mean, "{:.3f}"),
            number_cell(own.distance.mean, "{:.2f}"),
            *(
                number_cell(cost, "{:.2f}×")
                for cost in (own.costs.processor, own.costs.gradients, own.costs.memory_mb)
            ),
            _seeds(own),
        ]
        for own in comparison.methods
    ]
    rows.sort(key=lambda row: -row[1].sort if isinstance(row[1].sort, float) else math.inf)
    return Table(
        "leaderboard",
        "Leaderboard",
        ["method", "average, %", "to baseline", "to control", "verdict", "train loss", "cosine",
         "distance", "processor", "gradients", "memory", "seeds"],
        rows,
        f"Average of the trained tasks' main metrics on {comparison.split}, mean ± standard error "
        "over seeds. Differences are in points, paired by seed, ± half of their 95 % interval; "
        f"{comparison.verdicts_by}. “control as good”: better than the baseline, but not "
        "clearly better than its own control; “control not tested”: its control has "
        "too few runs, or differences without spread. p values are under Differences. Train loss, task "
        "cosine and distance from the start are those of the last evaluation; processor time, batch "
        "gradients and peak memory are relative to the baseline."
        + ("" if comparison.budget is None else f" {comparison.budget.sentence}"),
    )  # fmt: skip


def per_task(data: ReportData) -> Table | None:
    """Main metrics of all methods on the split that is compared."""
    comparison = data.comparison
    if comparison is None:
        return None
    trained, metrics = (*data.runs[0].results.trained, UNSEEN), {UNSEEN: "main metrics"}
    metrics |= comparison.metrics
    tasks = comparison.columns
    rows = [
        [
            named(data.label(own)),
            *(_score(own, task) for task in (AVERAGE, *tasks)),
        ]
        for own in comparison.methods
    ]
    for what in NoSkill.model_fields if comparison.references else ():
        known = [getattr(comparison.references.get(task), what, None) for task in (AVERAGE, *tasks)]
        rows.append([named(what), *(number_cell(value, "{:.2f}") for value in known)])
    headings = [f"{t} ({metrics[t]})" + ("" if t in trained else ", never trained on") for t in tasks]
    return Table(
        "per-task",
        "Task by task",
        ["method", AVERAGE, *headings],
        rows,
        f"In percent on {comparison.split}, mean ± standard error over seeds. Chance is a random "
        "guess, majority always the same prediction; * marks a method that predicts one class or is "
        "not above majority by two standard errors at that number of examples.",
    )


def no_skill(data: ReportData) -> Table | None:
    """Where models predict one class, or are not above the most frequent one."""
    comparison = data.comparison
    marked = [own for own in comparison.methods if own.marks] if comparison is not None else []
    if not marked:
        return None
    tasks = dict.fromkeys(task for own in marked for task in own.marks)
    rows = [
        [
            named(data.names[own.method]),
            *(
                Cell(f"{count} of {len(own.seeds)}", float(count))
                if (count := len(own.marks.get(task, ())))
                else Cell(NONE)
                for task in tasks
            ),
        ]
        for own in marked
    ]  # fmt: skip
    return Table(
        "no-skill",
        "No better than a constant prediction",
        ["method", *tasks],
        rows,
        "Seeds whose score is below the majority's, within noise of it (two standard errors at that "
        "number of examples), or whose model predicts one class: differences there may mean nothing.",
    )


def differences(data: ReportData) -> Table | None:
    """Every method and task against the baseline and against the method's own control."""
    comparison = data.comparison
    if comparison is None or len(data.methods) < 2:
        return None
    split, tasks = comparison.split, comparison.tasks
    scores = {
        name: scores_by_seed({run.results.seed: run.results for run in runs}, split)
        for name, runs in data.methods.items()
    }
    baseline = comparison.baseline.method
    others = [own for own in comparison.methods[1:] if own.method in scores]
    if not others:
        return None
    pairs = [(own.method, o) for own in others for o in (baseline, own.control) if o in scores]

    def family(own: Sequence[str]) -> dict[tuple[str, str | None, str], Difference]:
        return corrected(
            {
                (a, b, task): Difference.between(scores[a].get(task, {}), scores[b].get(task, {}))
                for a, b in pairs
                if b is not None
                for task in own
            }
        )

    averages, single = family([AVERAGE]), family(tasks)  # the main question, and details
    known = averages | single
    of_averages, of_tasks = (sum(not d.no_p for d in own.values()) for own in (averages, single))
    rows = [
        [
            named(data.label(own)),
            named(task),
            *_paired(known.get((own.method, baseline, task))),
            named(data.names[own.control]) if own.control else Cell(NONE),
            *_paired(known.get((own.method, own.control, task))),
        ]
        for own in others
        for task in (AVERAGE, *tasks)
    ]
    return Table(
        "differences",
        "Differences",
        [
            "method",
            "task",
            f"to {data.names[baseline]}",
            "p",
            "Holm p",
            "detectable",
            "control",
            "to control",
            "p",
            "Holm p",
            "detectable",
        ],
        rows,
        "In percentage points, mean ± standard error of the differences seed by seed, p of the paired "
        "t-test. "
        + (_correction(of_averages, of_tasks) if of_averages or of_tasks else "")
        + "Detectable: the smallest true difference that the test finds four times in five. "
        f"Fewer than {PAIRS} pairs of seeds, or equal differences, have no p value.",
    )


def _correction(of_averages: int, of_tasks: int) -> str:
    return (
        "Of many tests some fall below 0.05 by chance: Holm p corrects for that, over the "
        f"{of_averages} tests of averages together and over the {of_tasks} of single tasks. "
    )


def scores(data: ReportData) -> Table | None:
    """All metrics of a single run."""
    if data.comparison is not None:
        return None
    results = data.runs[0].results
    splits = [split for split in ("dev", "test") if results.scores(split)]
    rows = []
    for task, main in results.metrics.items():
        beside = [results.reference(task, split) for split in splits]
        known = [results.scores_shown(split).get(task, {}) for split in splits]
        names = dict.fromkeys(name for own in known for name in own)
        for metric in sorted(names, key=lambda name: name != main):
            rows.append(
                [
                    named(task + ("" if task in results.trained else " (never trained on)")),
                    Cell(metric + (" (main)" if metric == main else "")),
                    *(number_cell(own.get(metric), "{:.2f}") for own in known),
                    *_beside(beside if metric == main else [None] * len(splits)),
                ]
            )
    if not rows or not splits:
        return None
    caption = (
        f"In percent, at the best weights on dev (step {results.best_step}). Chance is a "
        "random guess, majority always the same prediction."
    )
    more = [f"{what}, {split}" for split in splits for what in ("chance", "majority")]
    return Table("scores", "Scores", ["task", "metric", *splits, *more, "note"], rows, caption)


def course(data: ReportData) -> Table | None:
    """Scores on dev of a single run with so few evaluations that they make no curve."""
    if data.comparison is not None or not 0 < len(data.runs[0].evaluations) < CURVE:
        return None
    results, records = data.runs[0].results, data.runs[0].evaluations
    rows = [[named(AVERAGE), *(number_cell(record.average, "{:.2f}") for record in records)]]
    for task, metric in results.metrics.items():
        known = [record.scores.get(task, {}).get(metric) for record in records]
        rows.append([named(task), *(number_cell(value, "{:.2f}") for value in known)])
    return Table(
        "course",
        "Scores on dev over training",
        ["task", *(f"at {record.gradients:,.0f}" for record in records)],
        rows,
        "Main metrics in percent, after so many batch gradients.",
    )


def costs(data: ReportData) -> Table:
    """Absolute costs, mean over seeds."""
    forms = {
        "cpu_seconds": "{:.1f}", "training_seconds": "{:.1f}", "evaluation_seconds": "{:.1f}",
        "probe_seconds": "{:.1f}", "steps": "{:,.0f}", "gradients": "{:,.0f}",
        "memory_mb": "{:,.0f}", "seconds": "{:.1f}",
    }  # fmt: skip
    rows = []
    for name, runs in data.methods.items():
        spent = {key: [getattr(run.results.cost, key) for run in runs] for key in forms}
        known = {key: [value for value in own if value is not None] for key, own in spent.items()}
        means = {key: statistics.fmean(own) if own else None for key, own in known.items()}
        rows.append(
            [named(data.names[name]), *(number_cell(means[key], form) for key, form in forms.items())]
        )
    over = "Mean over seeds. " if len(data.runs) > 1 else ""
    return Table(
        "costs",
        "Costs",
        ["method", "processor, s", "training, s", "evaluation, s", "probes, s", "steps",
         "batch gradients", "peak memory, MB", "clock, s"],
        rows,
        f"{over}Processor time and memory are those of the whole process; training, evaluation and "
        "probes are their parts of processor time. Clock time, from the first step to the last, also "
        "depends on what else ran on the machine.",
    )  # fmt: skip


def worst(runs: Sequence[tuple[str, FinishedRun]]) -> list[Table]:
    """The worst examples, one table per task; of the first of these methods and runs that has any."""
    found = []
    tasks = dict.fromkeys(task for _, run in runs for task in run.results.errors)
    for task in tasks:
        analyses = ((name, run, run.results.errors.get(task)) for name, run in runs)
        wrong = next(((n, run, errors) for n, run, errors in analyses if errors and errors.worst), None)
        if wrong is None:
            continue
        name, run, errors = wrong
        by = any(one.by is not None for one in errors.worst)
        rows = [
            [
                Cell(one.text),
                Cell(_label_text(one.gold)),
                Cell(_label_text(one.predicted)),
                *([number_cell(one.by, "{:.3g}")] if by else []),
                Cell(one.id),
            ]
            for one in errors.worst
        ]
        found.append(
            Table(
                f"worst-{task}",
                f"{task}: examples that {name} gets wrong",
                ["text", "truth", "prediction", *(["off by"] if by else []), "id"],
                rows,
                f"{errors.wrong:,} of {errors.examples:,} examples of {errors.split} are wrong; "
                f"seed {run.results.seed}; "
                + ("the furthest off first." if by else "the first of them."),
                one_of_many=len(tasks) > MANY,
            )
        )
    return found


def _score(own: Standing, task: str) -> Cell:
    """The mean, with a star if it shows no skill."""
    cell = mean_cell(own.scores.get(task, Mean.of([])))
    return Cell(own.marked(task), cell.sort) if own.marks.get(task) else cell


def _beside(known: Sequence[Reference | None]) -> list[Cell]:
    """Chance and majority on each split, and the marks."""
    cells = []
    for own in known:
        for value in (None, None) if own is None else (own.chance, own.majority):
            cells.append(number_cell(value, "{:.2f}"))
    marks = [f"{own.mark} ({own.split})" for own in known if own is not None and own.mark]
    return [*cells, Cell(", ".join(marks) or NONE)]


def _difference(difference: Difference | None) -> Cell:
    if difference is None or not difference.count:
        return Cell(NONE)
    return Cell(difference.with_interval, difference.mean)


def _paired(between: Difference | None) -> list[Cell]:
    """The difference, its p, the corrected p, and the smallest effect that the test could detect."""
    if between is None or not between.count:
        return [Cell(NONE)] * 4
    error = "" if math.isnan(between.error) else f" ± {between.error:.2f}"
    return [
        Cell(f"{between.mean:+.2f}{error}", between.mean),
        *(Cell(NONE) if math.isnan(p) else Cell(short_p(p), p) for p in (between.p, between.p_holm)),
        number_cell(between.smallest_effect, "{:.2f}"),
    ]


def _seeds(own: Standing) -> Cell:
    count = len(own.seeds)
    known = (("collapsed", own.collapsed), ("missing", own.missing))
    rest = [f"{len(some)} {what}" for what, some in known if some]
    return Cell(f"{count} ({', '.join(rest)})" if rest else str(count), float(count))


def _label_text(value: Any) -> str:
    """A truth or prediction as text."""
    shown = value
    if isinstance(value, float):
        shown = f"{value:.4g}"
    elif isinstance(value, list):
        shown = " ".join(map(str, value))
    return cut(str(shown), 300)
