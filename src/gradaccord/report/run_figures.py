"""The figures of a run or a comparison; what has no data is left out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from gradaccord.compare.statistics import Mean
from gradaccord.report.charts import CURVE, Series, bars, heat_map, histogram, line_chart, paths
from gradaccord.report.data import FinishedRun, ReportData
from gradaccord.report.section import Figure, drawn
from gradaccord.report.svg import legend
from gradaccord.runs.results import EvaluationRecord, Results
from gradaccord.tasks.error_analysis import Confusion
from gradaccord.tasks.task import main_score

BINS = 40  # intervals of training that a curve of steps is averaged over
BUDGET = "batch gradients"

Matrix = list[list[float | None]]


def shared_legend(data: ReportData) -> str:
    """The methods' marks, for all figures of a section; none is needed for a single method."""
    names = [(data.names[name], mark) for mark, name in enumerate(data.methods)]
    return legend(names) if len(names) > 1 else ""


def learning(data: ReportData) -> list[Figure]:
    """Training loss, and scores on dev, over the budget."""
    first = data.runs[0]
    metrics, trained = first.results.metrics, first.results.trained
    tasks = [task for task in metrics if any(task in e.scores for e in first.evaluations)]
    loss = over_steps(
        data,
        "train-loss",
        "Training loss",
        "loss",
        "loss, mean of tasks",
        f"{data.band}The horizontal axis is the budget.",
    )
    if data.comparison is None and len(first.evaluations) < CURVE:  # `run_tables.course` has them
        return drawn([loss])
    return drawn(
        [
            loss,
            over_evaluations(
                data,
                "dev-average",
                "Average score on dev",
                lambda record: record.average,
                "average, %",
                data.band,
                _chance(first.results, trained),
            ),
            *(
                over_evaluations(
                    data,
                    f"dev-{task}",
                    f"{task} on dev" + ("" if task in trained else " (never trained on)"),
                    partial(_score, task, metrics[task]),
                    f"{metrics[task]}, %",
                    data.band,
                    _chance(first.results, [task]),
                )
                for task in (tasks if len(tasks) > 1 else [])
            ),
        ]
    )


def alignment(data: ReportData) -> list[Figure]:
    """Dot product, cosine and conflicts between gradients; what they cost in loss."""
    single = "Of the batches within one step, smoothed over training: single batches are mostly noise."
    steps = (
        ("dot", "Dot product within a step", "dot product", f"{single} Gradients' lengths count."),
        ("cosine", "Cosine within a step", "cosine", f"{single} Lengths do not count."),
        ("conflicts", "Conflicts within a step", "share of pairs", "Pairs with a cosine below 0."),
    )
    return drawn(
        [
            *(
                over_steps(data, f"step-{key}", title, key, unit, caption)
                for key, title, unit, caption in steps
            ),
            over_evaluations(
                data,
                "task-cosine",
                "Cosine between tasks",
                lambda record: record.task_cosine.mean if record.task_cosine else None,
                "mean cosine",
                f"Over the same training batches each time, averaged before comparing. {data.band}",
            ),
            _trade_off(data),
            *_cosines(data),
        ]
    )


def distance(data: ReportData) -> Figure:
    """How far each method has moved the encoder, over training."""
    return over_evaluations(
        data,
        "distance",
        "Distance from the pretrained weights",
        lambda record: record.distance.total if record.distance else None,
        "Euclidean distance",
        f"Of the shared trunk alone. {data.band}",
    )


def cost(data: ReportData) -> list[Figure]:
    """Processor time relative to the baseline; none for fewer than four methods."""
    if data.comparison is None or len(data.methods) < 4:
        return []
    usual = data.comparison.baseline.method
    seconds = {
        name: {run.results.seed: run.results.cost.cpu_seconds for run in runs}
        for name, runs in data.methods.items()
    }
    base = seconds.get(usual, {})
    values = []
    for name, own in seconds.items():
        ratios = [s / usual_s for seed, s in own.items() if s and (usual_s := base.get(seed))]
        if ratios:
            values.append((data.names[name], statistics.median(ratios)))
    alt = f"Processor time of each method relative to {data.names[usual]}:"
    caption = f"Relative to {data.names[usual]} (the line), median over seeds."
    return drawn([Figure("cost", "Processor time", bars(values, "×", alt), caption)])


def mistakes(name: str, runs: Sequence[FinishedRun]) -> list[Figure]:
    """Confusions and error histograms of one method, task by task, counted over all its seeds."""
    found = []
    for task, first in runs[0].results.errors.items():
        several = [run.results.errors[task] for run in runs if task in run.results.errors]
        if first.confusion:
            labels = first.confusion.labels
            counts = _summed([one.confusion for one in several if one.confusion], labels)
            svg = heat_map(
                labels,
                counts,
                f"Confusion matrix of {task} by {name}, truth in rows, predictions in columns.",
                low=0,
                high=max(max(row) for row in counts) or 1,
                digits=0,
                axes=("truth", "prediction"),
            )
            where = f"Examples; {name}, {first.split}, {_seeds(several)}."
            found.append(
                Figure(f"confusion-{name}-{task}", f"Confusions of {task}: {name}", svg, where)
            )
        if first.histogram:  # edges differ between seeds
            svg = histogram(
                first.histogram.edges,
                first.histogram.counts,
                "prediction − truth",
                f"Histogram of the errors of {task} by {name}: prediction minus truth.",
            )
            where = f"Examples; {name}, {first.split}, seed {runs[0].results.seed}."
            found.append(Figure(f"histogram-{name}-{task}", f"Errors of {task}: {name}", svg, where))
    return drawn(found)


def over_evaluations(
    data: ReportData,
    id: str,
    title: str,
    read: Callable[[EvaluationRecord], float | None],
    y_label: str,
    caption: str,
    chance: float | None = None,
) -> Figure:
    """One line per method: means over seeds of the k-th evaluations. chance: what a guess scores."""
    found = []
    for mark, (name, runs) in enumerate(data.methods.items()):
        several = list(zip(*(run.evaluations for run in runs), strict=False))
        means = [Mean.of(_finite(read(one)) for one in records) for records in several]
        x = [statistics.fmean(one.gradients for one in records) for records in several]
        found.append(_series(data.names[name], mark, x, means))
    svg = line_chart(found, BUDGET, y_label, f"{title}, by method.", chance)
    return Figure(id, title, svg, caption)


def over_steps(
    data: ReportData,
    id: str,
    title: str,
    key: str,
    y_label: str,
    caption: str,
) -> Figure:
    """One line per method: means over intervals of training, then over seeds."""
    ends = [run.steps.gradients[-1] for run in data.runs if run.steps]
    fewest = min((len(run.steps) for run in data.runs if run.steps), default=0)
    count = max(min(BINS, fewest), 1)
    width = max(ends, default=1.0) / count
    x = [(i + 0.5) * width for i in range(count)]
    found = []
    for mark, (name, runs) in enumerate(data.methods.items()):
        curves = [_curve(run, key, width, count) for run in runs]
        means = [Mean.of(curve[i] for curve in curves) for i in range(count)]
        found.append(_series(data.names[name], mark, x, means))
    return Figure(id, title, line_chart(found, BUDGET, y_label, f"{title}, by method."), caption)


def _series(name: str, mark: int, x: Sequence[float], means: Sequence[Mean]) -> Series:
    return Series(name, mark, x, [m.mean for m in means], [m.error for m in means])


def _curve(run: FinishedRun, key: str, width: float, count: int) -> list[float]:
    bins: list[list[float]] = [[] for _ in range(count)]
    if all(map(math.isnan, run.steps.values[key])):
        return [math.nan] * count
    for gradients, value in zip(run.steps.gradients, run.steps.values[key], strict=True):
        if math.isfinite(value):
            bins[min(math.ceil(gradients / width - 1e-9) - 1, count - 1)].append(value)
    return [math.fsum(own) / len(own) if own else math.nan for own in bins]


def _trade_off(data: ReportData) -> Figure:
    series = []
    for mark, (name, runs) in enumerate(data.methods.items()):
        for run in runs:
            cosines = [record.task_cosine for record in run.evaluations]
            known = [cosine for cosine in cosines if cosine and cosine.losses]
            losses = [statistics.fmean(cosine.losses.values()) for cosine in known]
            series.append(Series(data.names[name], mark, losses, [cosine.mean for cosine in known]))
    alt = "Training loss against mean task cosine, each run from evaluation to evaluation."
    return Figure(
        "trade-off",
        "Loss against alignment",
        paths(series, "training loss", "mean task cosine", alt),
        "Each point is an evaluation, the last of a run larger. A cosine that rises with the loss is "
        "no success.",
    )


def _cosines(data: ReportData) -> Iterator[Figure]:
    """The cosines of the first method, and how those of the others differ from them."""
    base: Matrix | None = None
    first = data.names[next(iter(data.methods))]
    for name, runs in data.methods.items():
        cosines = [run.results.last.task_cosine for run in runs]
        measured = [cosine for cosine in cosines if cosine]
        if not measured:
            continue
        tasks, short = measured[0].tasks, data.names[name]
        cells = range(len(tasks))
        shown: Matrix = [[_mean_of([m.matrix[i][j] for m in measured]) for j in cells] for i in cells]
        title, reach = f"Task cosines at the end: {short}", 1.0
        caption = f"Mean off the diagonal {Mean.of(m.mean for m in measured)}, {_seeds(measured)}"
        if base is not None and len(base) == len(shown):
            shown = [
                [_minus(a, b) for a, b in zip(*rows, strict=True)]
                for rows in zip(shown, base, strict=True)
            ]
            title = f"Task cosines at the end: {short} minus {first}"
            reach = max((abs(v) for row in shown for v in row if v is not None), default=0.0) or 1.0
            caption += f"; cells: difference to {first}"
        elif name == next(iter(data.methods)):
            base = shown
        yield Figure(
            f"cosines-{name}",
            title,
            heat_map(tasks, shown, f"{title}.", low=-reach, high=reach),
            f"{caption}; gradients are averaged over several batches first.",
        )


def _chance(results: Results, tasks: Sequence[str]) -> float | None:
    """What a guess scores on dev, mean over tasks; None where that is not known of all."""
    known = [results.reference(task, "dev") for task in tasks]
    values = [own.chance for own in known if own is not None]
    return statistics.fmean(values) if values and len(values) == len(tasks) else None


def _score(task: str, metric: str, record: EvaluationRecord) -> float | None:
    scores = record.scores.get(task)
    return None if scores is None else main_score(scores, metric)


def _seeds(several: Sequence[Any]) -> str:
    return f"{len(several)} seed{'s' if len(several) > 1 else ''}"


def _summed(confusions: Sequence[Confusion], labels: Sequence[str]) -> list[list[int]]:
    same = [one.counts for one in confusions if list(one.labels) == list(labels)]
    return [[sum(cells) for cells in zip(*rows, strict=True)] for rows in zip(*same, strict=True)]


def _finite(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _mean_of(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None and math.isfinite(v)]
    return statistics.fmean(known) if known else None


def _minus(value: float | None, base: float | None) -> float | None:
    return None if value is None or base is None else value - base
