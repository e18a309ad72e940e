"""The outcome of a comparison: scores, differences and costs over seeds, as plain data."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradaccord.compare.runs import Run
from gradaccord.compare.specs import Spec
from gradaccord.compare.statistics import Difference, Mean, corrected
from gradaccord.runs.results import main_scores

AVERAGE = "average"
COLLAPSE = 0.5  # of the baseline's average score: a run below it has not learned


@dataclass(frozen=True)
class Row:
    """One method."""

    spec: Spec
    seeds: tuple[int, ...]
    scores: dict[str, Mean]  # task -> main metric, and the average over trained tasks
    to_baseline: Difference  # of the average, its p corrected for all tests of the summary
    control: Spec | None
    to_control: Difference | None
    train_loss: Mean  # of the last steps, mean over tasks
    cosine: Mean  # between the tasks' gradients at the last evaluation; NaN if not measured
    distance: Mean  # from the pretrained weights
    collapsed: tuple[int, ...]  # seeds that learned less than half of what the baseline did
    costs: dict[str, float]  # seconds, gradients, memory, relative to the baseline
    missing: dict[int, str]  # seed -> what became of the run

    @property
    def name(self) -> str:
        """As it was given."""
        return str(self.spec)


@dataclass(frozen=True)
class Summary:
    """All methods; the first row is the baseline."""

    split: str
    tasks: tuple[str, ...]
    metrics: dict[str, str]
    rows: tuple[Row, ...]

    @property
    def tests(self) -> int:
        """How many tests the p values are corrected for."""
        return sum(not difference.no_p for difference in _family(self.rows).values())


def summarise(runs: Sequence[Run]) -> Summary:
    """Statistics over the seeds that finished; on test where all tasks have it, else on dev."""
    finished = [run for run in runs if run.results is not None]
    if not finished:
        failures = [f"{run.spec} seed {run.seed} {run.failure}" for run in runs if run.failure]
        raise ValueError("No run finished: " + ("; ".join(failures[:3]) or "none was started") + ".")
    first = finished[0].results or {}
    trained = first["trained"]
    split = "test" if all(task in first["test"] for task in trained) else "dev"
    tasks = tuple(first[split])
    specs = list(dict.fromkeys(run.spec for run in runs))
    scores = {spec: scores_by_seed(_results(runs, spec), split, trained) for spec in specs}
    baseline = specs[0]
    rows = tuple(_row(runs, spec, baseline, scores, specs) for spec in specs)
    return Summary(split, tasks, dict(first["metrics"]), _corrected(rows))


def _family(rows: Sequence[Row]) -> dict[tuple[Spec, Spec], Difference]:
    """Every test of a summary once, by who is compared with whom; the baseline may be the control."""
    baseline = rows[0].spec
    found = {(row.spec, baseline): row.to_baseline for row in rows[1:]}
    for row in rows:
        if row.control is not None and row.to_control is not None:
            found[row.spec, row.control] = row.to_control
    return found


def _corrected(rows: Sequence[Row]) -> tuple[Row, ...]:
    """With p values that are corrected for all tests together."""
    family = corrected(_family(rows))
    return tuple(
        replace(
            row,
            to_baseline=family.get((row.spec, rows[0].spec), row.to_baseline),
            to_control=None if row.control is None else family[row.spec, row.control],
        )
        for row in rows
    )


def scores_by_seed(
    results: Mapping[int, Mapping[str, Any]], split: str, trained: Sequence[str]
) -> dict[str, dict[int, float]]:
    """Task -> seed -> main metric, and the average over trained tasks. results: by seed."""
    found: dict[str, dict[int, float]] = {AVERAGE: {}}
    for seed, own in results.items():
        main = main_scores(own, split)
        for task, value in main.items():
            found.setdefault(task, {})[seed] = value
        found[AVERAGE][seed] = statistics.fmean(main[task] for task in trained)
    return found


def _results(runs: Sequence[Run], spec: Spec) -> dict[int, dict[str, Any]]:
    """Of a method's finished runs, by seed."""
    return {run.seed: run.results for run in runs if run.spec == spec and run.results is not None}


def _row(
    runs: Sequence[Run],
    spec: Spec,
    baseline: Spec,
    scores: Mapping[Spec, Mapping[str, Mapping[int, float]]],
    specs: Sequence[Spec],
) -> Row:
    own, theirs = _results(runs, spec), _results(runs, baseline)
    average = scores[spec][AVERAGE]
    control = _strongest([other for other in spec.controls() if other in specs], scores)
    usual = Mean.of(list(scores[baseline][AVERAGE].values())).value
    return Row(
        spec=next(other for other in specs if other == spec),
        seeds=tuple(sorted(own)),
        scores={task: Mean.of(list(values.values())) for task, values in scores[spec].items()},
        to_baseline=Difference.between(average, scores[baseline][AVERAGE]),
        control=control,
        to_control=None if control is None else Difference.between(average, scores[control][AVERAGE]),
        train_loss=Mean.of([_train_loss(results) for results in own.values()]),
        cosine=Mean.of([_last(results, "task_cosine", "mean") for results in own.values()]),
        distance=Mean.of([_last(results, "distance", "total") for results in own.values()]),
        collapsed=tuple(sorted(s for s, value in average.items() if value < COLLAPSE * usual)),
        costs={name: _relative(own, theirs, name) for name in ("seconds", "gradients", "memory_mb")},
        missing={
            run.seed: run.failure or "not run"
            for run in runs
            if run.spec == spec and run.results is None
        },
    )


def _strongest(
    controls: Sequence[Spec], scores: Mapping[Spec, Mapping[str, Mapping[int, float]]]
) -> Spec | None:
    """The control with the best average: the one that has to be beaten."""
    known = [spec for spec in controls if scores[spec][AVERAGE]]
    return max(
        known, key=lambda spec: Mean.of(list(scores[spec][AVERAGE].values())).value, default=None
    )


def _relative(
    own: Mapping[int, dict[str, Any]], theirs: Mapping[int, dict[str, Any]], cost: str
) -> float:
    """The median over seeds of ours over theirs."""
    pairs = [(own[seed]["cost"][cost], theirs[seed]["cost"][cost]) for seed in own if seed in theirs]
    ratios = [ours / usual for ours, usual in pairs if usual]
    return statistics.median(ratios) if ratios else math.nan


def _train_loss(results: Mapping[str, Any]) -> float:
    losses = results["last"].get("train_loss") or {}
    return statistics.fmean(losses.values()) if losses else math.nan


def _last(results: Mapping[str, Any], probe: str, key: str) -> float:
    measured = results["last"].get(probe)
    return float(measured[key]) if measured else math.nan
