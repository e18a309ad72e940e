"""The record of one run of an entry: a JSON file in `results/`, from which the docs pages are made."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain, pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from pydantic import BaseModel

from gradaccord.compare.comparison import AVERAGE, UNSEEN
from gradaccord.compare.statistics import Number
from gradaccord.probe.alignment import AlignmentProbe
from gradaccord.runs.about import About, about, read_about
from gradaccord.runs.files import LOG
from gradaccord.runs.log import StepRecord, records
from gradaccord.runs.results import Cost, Results, Scores, TaskCosine, TaskErrors
from gradaccord.runs.versioned import Versioned
from gradaccord.tasks.error_analysis import Confusion, Histogram
from gradaccord.tasks.task import main_score

TRAIN_LOSS = "train_loss"
COSTS = ("step", "gradients", "seconds")  # of a point
STEPS_TO = re.compile(r"steps to (\d+(?:\.\d+)?)")  # a score on validation
OVERALL = "overall"  # an average in which a Pearson correlation r counts as (1 + r) / 2
POINTS = 60  # of a curve that are kept
DIGITS = 6  # of numbers in curves
CLASSES = 20  # confusions of more classes are not kept


class Point(BaseModel):
    """A point of a run's curve: its cost so far and what was measured."""

    step: int
    gradients: float
    seconds: float
    values: dict[str, float]  # average, train loss, cosine, distance, masked LM...

    def value(self, name: str) -> float:
        """A cost, a measured value, or the mean of those that a pattern such as `masked_lm.*` fits."""
        return float(getattr(self, name)) if name in COSTS else mean_of(self.values, name)


def steps_to(curve: Sequence[Point], level: float) -> float:
    """The step at which the average first reaches a level, interpolated; NaN if it never does."""
    found = [(point.step, point.value(AVERAGE)) for point in curve]
    if found and found[0][1] >= level:
        return float(found[0][0])
    for (before, low), (after, high) in pairwise(found):
        if low < level <= high:
            return before + (after - before) * (level - low) / (high - low)
    return math.nan


def mean_of(values: Mapping[str, float], pattern: str) -> float:
    """The mean of the values whose names fit; NaN if none does."""
    found = [value for name, value in values.items() if fnmatchcase(name, pattern)]
    return fmean(found) if found else math.nan


class Errors(BaseModel):
    """The errors of the best weights, as numbers only: no text of a data set is kept."""

    split: str
    examples: int
    wrong: int
    confusion: Confusion | None = None  # of few classes
    histogram: Histogram | None = None

    @classmethod
    def of(cls, found: TaskErrors) -> Errors:
        """The errors of a task, without the examples and the confusions of many classes."""
        many = found.confusion is not None and len(found.confusion.labels) > CLASSES
        return cls(**found.model_dump(exclude={"worst", "confusion"} if many else {"worst"}))


class RunRecord(Versioned):
    """One arm on one variant with one seed at one budget."""

    FILE: ClassVar[str] = "record.json"  # in `results/` its name says which run it is

    entry: str
    size: str  # small or full
    variant: str
    arm: str
    budget: str
    seed: int
    settings: dict[str, Any]  # the entry's: once they change there, the record is out of date
    drawn: bool = False  # whether `limit` drew examples at random; old records have the first
    finished: str
    commit: str | None
    versions: dict[str, str]
    metrics: dict[str, str]  # task -> main metric
    trained: list[str]  # the tasks in the average
    dev: Scores
    test: dict[str, dict[str, Number]] = {}  # NaN: could not be measured
    chance: dict[str, dict[str, float]] = {}  # task -> `chance` and `majority` on the main metric
    train_loss: Number = math.nan
    probes: dict[str, float] = {}  # at the last evaluation
    cosines: TaskCosine | None = None  # at the last evaluation that measured them
    curve: list[Point] = []
    alignment: dict[str, list[float]] = {}  # steps, dot, cosine: moving means of the steps
    errors: dict[str, Errors] = {}
    cost: Cost

    @property
    def file(self) -> str:
        """Its name in the folder of the entry."""
        return record_file(self.variant, self.arm, self.budget, self.seed)

    @property
    def split(self) -> str:
        """The split that is compared: test where all trained tasks have it, else dev."""
        return "test" if all(task in self.test for task in self.trained) else "dev"

    @property
    def scores(self) -> Scores:
        """The scores on that split."""
        return self.test if self.split == "test" else self.dev

    @property
    def tasks(self) -> tuple[str, ...]:
        """All tasks that were scored on that split."""
        return tuple(self.scores)

    @property
    def unseen(self) -> tuple[str, ...]:
        """Those of them that were not trained on."""
        return tuple(task for task in self.tasks if task not in self.trained)

    @property
    def guess(self) -> float:
        """The average of guessing, at random or always the same, on the split that is compared; -inf
        where a task's is not known."""
        best = [max(self.chance.get(task, {}).values(), default=-math.inf) for task in self.trained]
        return fmean(best) if best else -math.inf

    def value(self, metric: str = AVERAGE) -> float:
        """A number by name: `average` (of the trained tasks' main metrics), a task (its main metric),
        `task.metric`, a probe (or the mean of several: `masked_lm.*`), `train_loss`, or `steps to 40`
        (until the average on validation is 40; the last step, a lower bound, if it never is).

        `zero-shot average` is that of the tasks that were scored and not trained on. `overall` is the
        average with (1 + r) / 2 for Pearson's r, in percent like the rest.
        """
        if metric in (AVERAGE, OVERALL):
            values = [self.value(task) for task in self.trained]
            if metric == OVERALL:
                values = [
                    (100 + value) / 2 if self.metrics[task] == "pearson" else value
                    for task, value in zip(self.trained, values, strict=True)
                ]
            return math.fsum(values) / len(values)
        if metric == UNSEEN:
            unseen = [self.value(task) for task in self.unseen]
            return math.fsum(unseen) / len(unseen) if unseen else math.nan
        if metric == TRAIN_LOSS:
            return self.train_loss
        if self.curve and (level := STEPS_TO.fullmatch(metric)):
            found = steps_to(self.curve, float(level[1]))
            return float(self.curve[-1].step) if math.isnan(found) else found
        if metric in self.scores:
            return main_score(self.scores[metric], self.metrics[metric])
        measured = (self.curve[-1].values | self.probes) if self.curve else self.probes
        if math.isfinite(probed := mean_of(measured, metric)):
            return probed
        task, _, name = metric.rpartition(".")
        return self.scores.get(task, {}).get(name, math.nan)

    def is_bound(self, metric: str) -> bool:
        """Whether the value is only a lower bound: steps to a score that the run never reached."""
        level = STEPS_TO.fullmatch(metric) if self.curve else None
        return level is not None and math.isnan(steps_to(self.curve, float(level[1])))

    def save(self, folder: Path) -> Path:
        """Write it into the folder of an entry."""
        folder.mkdir(parents=True, exist_ok=True)
        self.write_file(folder / self.file)
        return folder / self.file


def record_file(variant: str, arm: str, budget: str, seed: int) -> str:
    """The file name of a run's record."""
    return f"{variant}.{arm}.{budget}.s{seed}.json"


def folder_of(results: Path, entry: str, size: str) -> Path:
    """The folder of an entry's records."""
    return results / entry if size == "small" else results / entry / size


def read_records(results: Path, entry: str, size: str = "small") -> list[RunRecord]:
    """All records of an entry, in the order of their names."""
    paths = sorted(folder_of(results, entry, size).glob("*.s*.json"))
    return [RunRecord.read_file(path) for path in paths]


def origin(folder: Path) -> dict[str, Any]:
    """Commit and versions with which a run was started."""
    found = read_about(folder) if About.exists(folder) else about()
    python = {} if found.python is None else {"python": found.python}
    return {"commit": found.git, "versions": {**python, **found.versions}}


def from_training(results: Results, folder: Path) -> dict[str, Any]:
    """What a record keeps of a training run."""
    errors = {task: Errors.of(own) for task, own in results.errors.items()}
    return {
        **origin(folder),
        "drawn": True,
        "finished": results.finished,
        "metrics": results.metrics,
        "trained": results.trained,
        "dev": results.dev,
        "test": results.test,
        "chance": _chance(results),
        "train_loss": results.train_loss,
        "probes": _probes(results.last),
        "cosines": _cosines(results),
        "curve": thinned([_point(one, results) for one in results.evaluations]),
        "alignment": _alignment(folder / LOG),
        "errors": errors,
        "cost": results.cost,
    }


def thinned(points: list[Any], most: int = POINTS) -> list[Any]:
    """At most this many of the points, evenly spaced, the last among them."""
    if len(points) <= most:
        return points
    return [points[round((i + 1) * len(points) / most) - 1] for i in range(most)]


def _chance(results: Results) -> dict[str, dict[str, float]]:
    known = {task: results.reference(task, results.split) for task in results.metrics}
    return {
        task: {"chance": own.chance, "majority": own.majority}
        for task, own in known.items()
        if own is not None
    }


def _cosines(results: Results) -> TaskCosine | None:
    """The last matrix; None if a task had no gradient, since JSON has no NaN."""
    measured = [one.task_cosine for one in results.evaluations if one.task_cosine is not None]
    if not measured or not all(map(math.isfinite, chain(*measured[-1].matrix))):
        return None
    rows = [[float(f"{value:.{DIGITS}g}") for value in row] for row in measured[-1].matrix]
    return measured[-1].model_copy(update={"matrix": rows})


def _probes(measured: Any) -> dict[str, float]:
    found = {}
    if measured.task_cosine is not None:
        found["cosine"] = measured.task_cosine.mean
    if measured.distance is not None:
        found["distance"] = measured.distance.total
    for text, loss in (measured.masked_lm or {}).items():
        found[f"masked_lm.{text}"] = loss
    return _rounded(found)


def _point(one: Any, results: Results) -> Point:
    values = {AVERAGE: one.average, **_probes(one)}
    values |= {task: main_score(own, results.metrics[task]) for task, own in one.scores.items()}
    if one.train_loss:
        values["train_loss"] = math.fsum(one.train_loss.values()) / len(one.train_loss)
    return Point(
        step=one.step, gradients=one.gradients, seconds=round(one.seconds, 2), values=_rounded(values)
    )


def _alignment(log: Path) -> dict[str, list[float]]:
    """Moving means of dot product and cosine over the steps; empty where no step has a pair."""
    if not log.exists():
        return {}
    found = [step for step in map(StepRecord.of, records(log)) if step is not None]
    steps = [step for step in found if step.dot is not None and math.isfinite(step.dot)]
    if not steps:
        return {}
    probe = AlignmentProbe()
    series = {
        "dot": [step.dot for step in steps],
        "cosine": [step.cosine for step in steps],
        "loss": [step.mean_loss for step in steps],
    }
    numbers = [step.step for step in steps]
    probe.load_state_dict({"step": numbers[-1], "steps": numbers, "series": series})
    curves: dict[str, list[float]] = {}
    for quantity in ("dot", "cosine", "loss"):
        curve = probe.curve(quantity)
        kept = thinned(list(zip(curve.steps, curve.values, strict=True)))
        curves[f"{quantity}_steps"] = [float(step) for step, _ in kept]
        curves[quantity] = [float(f"{value:.{DIGITS}g}") for _, value in kept]
    return curves


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.{DIGITS}g}") for name, value in values.items() if value == value}


def by_seed(records: Iterable[RunRecord], metric: str = AVERAGE) -> dict[int, float]:
    """Seed -> value of a metric."""
    return {record.seed: record.value(metric) for record in records}
