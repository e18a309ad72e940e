"""The figures of a report, each from the runs of all methods; what has no data is left out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gradaccord.compare.statistics import Mean
from gradaccord.report.charts import Series, bars, heat_map, histogram, line_chart, paths
from gradaccord.report.data import FinishedRun, ReportData
from gradaccord.runs.results import EvaluationRecord
from gradaccord.tasks.error_analysis import Confusion

BINS = 40  # stretches of training that a curve of steps is averaged over
BUDGET = "batch gradients"

ReadStep = Callable[[dict[str, Any]], float | None]
ReadEvaluation = Callable[[EvaluationRecord], float | None]


@dataclass(frozen=True)
class Figure:
    """A picture with its heading and what to look for; without data, `svg` is empty."""

    id: str
    title: str
    svg: str
    caption: str


def learning(data: ReportData) -> list[Figure]:
    """Training loss, and scores on dev, over the budget."""
    found = [
        Figure(
            "train-loss",
            "Training loss",
            over_steps(
                data,
                lambda record: statistics.fmean(record["loss"].values()),
                "loss, mean of tasks",
                "Training loss of each method over training.",
            ),
            f"{data.band}The horizontal axis is what every method pays in.",
        ),
        Figure(
            "dev-average",
            "Average score on dev",
            over_evaluations(
                data,
                lambda record: record.average,
                "average, %",
                "Average of the trained tasks' main metrics on dev, for each method over training.",
            ),
            data.band,
        ),
    ]
    first = data.runs[0]
    metrics, trained = first.results.metrics, first.results.trained
    tasks = [task for task in metrics if any(task in e.scores for e in first.evaluations)]
    for task in tasks if len(tasks) > 1 else []:
        found.append(
            Figure(
                f"dev-{task}",
                f"{task} on dev" + ("" if task in trained else " (never trained on)"),
                over_evaluations(
                    data,
                    partial(_score, task, metrics[task]),
                    f"{metrics[task]}, %",
                    f"{metrics[task]} of {task} on dev, for each method over training.",
                ),
                data.band,
            )
        )
    return drawn(found)


def alignment(data: ReportData) -> list[Figure]:
    """Dot product, cosine and conflicts between gradients; what they cost in loss."""
    single = "Of the batches within one step, smoothed over training: single batches are mostly noise."
    steps = (
        ("dot", "Dot product within a step", "dot product", f"{single} Gradients' lengths count."),
        ("cosine", "Cosine within a step", "cosine", f"{single} Lengths do not count."),
        (
            "conflicts",
            "Conflicts within a step",
            "share of pairs",
            "Pairs of gradients that point apart.",
        ),
    )
    found = [
        Figure(
            f"step-{key}",
            title,
            over_steps(
                data,
                partial(_key, key),
                unit,
                f"{title}, for each method over training.",
            ),
            caption,
        )
        for key, title, unit, caption in steps
    ]
    found.append(
        Figure(
            "task-cosine",
            "Cosine between tasks",
            over_evaluations(
                data,
                lambda record: record.task_cosine.mean if record.task_cosine else None,
                "mean cosine",
                "Mean cosine between the tasks' gradients at each evaluation, for each method.",
            ),
            f"Over the same training batches each time, averaged before comparing. {data.band}",
        )
    )
    return drawn([*found, _trade_off(data), *_cosines(data)])


def distance(data: ReportData) -> Figure:
    """How far the encoder has moved."""
    return Figure(
        "distance",
        "Distance from the pretrained weights",
        over_evaluations(
            data,
            lambda record: record.distance.total if record.distance else None,
            "Euclidean distance",
            "Distance of the shared trunk from where it started, for each method over training.",
        ),
        f"Of the shared trunk alone. {data.band}",
    )


def costs(data: ReportData) -> list[Figure]:
    """Time, gradients and memory relative to the baseline; nothing for a lone method."""
    if data.comparison is None or len(data.methods) < 2:
        return []
    usual = data.comparison.baseline.method
    found = []
    for key, title in (
        ("seconds", "Training time"),
        ("gradients", "Batch gradients"),
        ("memory_mb", "Peak memory"),
    ):
        values = [(own.method, getattr(own.costs, key)) for own in data.comparison.methods]
        found.append(
            Figure(
                f"cost-{key}",
                title,
                bars(values, "×", f"{title} of each method relative to {usual}:"),
                f"Relative to {usual} (the line), median over seeds."
                + (" Runs that share a machine slow each other down." if key == "seconds" else ""),
            )
        )
    return drawn(found)


def mistakes(name: str, runs: Sequence[FinishedRun]) -> list[Figure]:
    """Confusions and error histograms of one method, task by task, counted over all its seeds."""
    found = []
    for task, first in runs[0].results.errors.items():
        several = [run.results.errors[task] for run in runs if task in run.results.errors]
        where = f"{name}, {first.split}, {len(several)} seed{'s' if len(several) > 1 else ''}."
        if first.confusion:
            labels = first.confusion.labels
            counts = _summed([one.confusion for one in several if one.confusion], labels)
            found.append(
                Figure(
                    f"confusion-{name}-{task}",
                    f"Confusions of {task}: {name}",
                    heat_map(
                        labels,
                        counts,
                        f"Confusion matrix of {task} by {name}, truth in rows, predictions in columns.",
                        low=0,
                        high=max(max(row) for row in counts) or 1,
                        digits=0,
                        axes=("truth", "prediction"),
                    ),
                    f"Examples; {where}",
                )
            )
        if first.histogram:  # edges differ between seeds
            found.append(
                Figure(
                    f"histogram-{name}-{task}",
                    f"Errors of {task}: {name}",
                    histogram(
                        first.histogram.edges,
                        first.histogram.counts,
                        "prediction − truth",
                        f"Histogram of the errors of {task} by {name}: prediction minus truth.",
                    ),
                    f"Examples; {name}, {first.split}, seed {runs[0].results.seed}.",
                )
            )
    return drawn(found)


def _trade_off(data: ReportData) -> Figure:
    series = []
    for mark, (name, runs) in enumerate(data.methods.items()):
        for run in runs:
            cosines = [record.task_cosine for record in run.evaluations]
            known = [cosine for cosine in cosines if cosine and cosine.losses]
            losses = [statistics.fmean(cosine.losses.values()) for cosine in known]
            series.append(Series(name, mark, losses, [cosine.mean for cosine in known]))
    return Figure(
        "trade-off",
        "Loss against alignment",
        paths(
            series, "training loss", "mean task cosine",
            "Training loss against mean task cosine, each run from evaluation to evaluation.",
        ),
        "Each point is an evaluation, the last of a run larger. A cosine that rises with the loss is "
        "no success.",
    )  # fmt: skip


def _cosines(data: ReportData) -> Iterator[Figure]:
    for name, runs in data.methods.items():
        cosines = [run.results.last.task_cosine for run in runs]
        measured = [cosine for cosine in cosines if cosine]
        if not measured:
            continue
        tasks = measured[0].tasks
        places = range(len(tasks))
        matrix = [[_mean_of([m.matrix[i][j] for m in measured]) for j in places] for i in places]
        mean = Mean.of(m.mean for m in measured)
        seeds = f"{len(measured)} seed{'s' if len(measured) > 1 else ''}"
        yield Figure(
            f"cosines-{name}",
            f"Task cosines at the end: {name}",
            heat_map(
                tasks, matrix, f"Cosines between the tasks' gradients at the end of {name}.",
                low=-1, high=1,
            ),
            f"Mean off the diagonal {mean}, {seeds}; each over several batches averaged first.",
        )  # fmt: skip


def over_evaluations(data: ReportData, read: ReadEvaluation, y_label: str, alt: str) -> str:
    """A line a method: means over seeds of the k-th evaluations."""
    found = []
    for mark, (name, runs) in enumerate(data.methods.items()):
        several = list(zip(*(run.evaluations for run in runs), strict=False))
        means = [Mean.of(_finite(read(one)) for one in records) for records in several]
        x = [statistics.fmean(one.gradients for one in records) for records in several]
        found.append(Series(name, mark, x, [m.mean for m in means], [m.error for m in means]))
    return line_chart(found, BUDGET, y_label, alt)


def over_steps(data: ReportData, read: ReadStep, y_label: str, alt: str) -> str:
    """A line a method: means over stretches of training, then over seeds."""
    ends = [run.steps[-1]["gradients"] for run in data.runs if run.steps]
    fewest = min((len(run.steps) for run in data.runs if run.steps), default=0)
    count = max(min(BINS, fewest), 1)
    width = max(ends, default=1.0) / count
    found = []
    for mark, (name, runs) in enumerate(data.methods.items()):
        curves = [_curve(run, read, width, count) for run in runs]
        means = [Mean.of(curve[i] for curve in curves) for i in range(count)]
        x = [(i + 0.5) * width for i in range(count)]
        found.append(Series(name, mark, x, [m.mean for m in means], [m.error for m in means]))
    return line_chart(found, BUDGET, y_label, alt)


def _curve(run: FinishedRun, read: ReadStep, width: float, count: int) -> list[float]:
    bins: list[list[float]] = [[] for _ in range(count)]
    for record in run.steps:
        value = _finite(read(record))
        if math.isfinite(value):
            bins[min(math.ceil(record["gradients"] / width - 1e-9) - 1, count - 1)].append(value)
    return [statistics.fmean(own) if own else math.nan for own in bins]


def _key(key: str, record: Mapping[str, Any]) -> float | None:
    return record.get(key)


def _score(task: str, metric: str, record: EvaluationRecord) -> float | None:
    return record.scores.get(task, {}).get(metric)


def _summed(confusions: Sequence[Confusion], labels: Sequence[str]) -> list[list[int]]:
    same = [one.counts for one in confusions if list(one.labels) == list(labels)]
    return [[sum(cells) for cells in zip(*rows, strict=True)] for rows in zip(*same, strict=True)]


def _finite(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _mean_of(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None and math.isfinite(v)]
    return statistics.fmean(known) if known else None


def drawn(figures: Sequence[Figure]) -> list[Figure]:
    """Those that have data."""
    return [figure for figure in figures if figure.svg]
