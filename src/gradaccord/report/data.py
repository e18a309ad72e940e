"""What a report shows: the runs below a folder, with their logs, grouped by method."""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from gradaccord.compare.comparison import Comparison, Standing
from gradaccord.compare.specs import Spec, short_names
from gradaccord.compare.summary import runs_in, summarise
from gradaccord.runs.about import About, read_about
from gradaccord.runs.files import CONFIG, LOG, damaged, folder_name
from gradaccord.runs.log import StepRecord, is_evaluation, records
from gradaccord.runs.results import EvaluationRecord, Results
from gradaccord.runs.versioned import first_mistake

WANTED = "a folder of `gradaccord train`, `compare` or `sweep`"


WHOLE = 64 << 20  # bytes of logs up to which every step is read; beyond, every second, third, ...


@dataclass(frozen=True)
class Steps:
    """What figures show of a run's steps, as columns of numbers: a log may have a million lines."""

    gradients: array[float] = field(default_factory=lambda: array("d"))  # batch gradients so far
    values: dict[str, array[float]] = field(
        default_factory=lambda: {key: array("d") for key in ("loss", "dot", "cosine", "conflicts")}
    )  # NaN where a step has none

    def add(self, step: StepRecord) -> None:
        """The next step, as the log has it."""
        if 0 < step.gradients < math.inf:
            self.gradients.append(step.gradients)
            self.values["loss"].append(step.mean_loss)
            for key in ("dot", "cosine", "conflicts"):
                value = getattr(step, key)
                self.values[key].append(math.nan if value is None else value)

    def __len__(self) -> int:
        return len(self.gradients)

    @classmethod
    def side_by_side(cls, parts: Sequence[Steps]) -> Steps:
        """Steps of models that were trained one after another, as if all had been trained at once."""
        order = sorted(
            (g * len(parts), p, i) for p, own in enumerate(parts) for i, g in enumerate(own.gradients)
        )
        return cls(
            array("d", [gradients for gradients, _, _ in order]),
            {key: array("d", [parts[p].values[key][i] for _, p, i in order]) for key in cls().values},
        )


@dataclass(frozen=True)
class FinishedRun:
    """One run. A run of `stl` has the curves of its tasks' models laid side by side."""

    folder: Path
    results: Results
    steps: Steps  # the log's, the warm start left out
    evaluations: list[EvaluationRecord]
    about: About
    config: str


@dataclass(frozen=True)
class ReportData:
    """Everything below a folder."""

    folder: Path
    methods: dict[str, list[FinishedRun]]  # those with a finished run, the baseline first
    comparison: Comparison | None = None  # None for a single run
    unfinished: list[str] = field(default_factory=list)  # runs without results, as sentences

    @property
    def runs(self) -> list[FinishedRun]:
        """All of them."""
        return [run for runs in self.methods.values() for run in runs]

    @cached_property
    def names(self) -> dict[str, str]:
        """Method -> the short name that tables and charts show."""
        compared = self.comparison.methods if self.comparison is not None else ()
        return short_names(dict.fromkeys([*self.methods, *(own.method for own in compared)]))

    def label(self, own: Standing) -> str:
        """Its short name, and whether it is a control."""
        return self.names[own.method] + (" (control)" if own.is_control else "")

    @property
    def band(self) -> str:
        """What the bands and bars of charts are."""
        several = any(len(runs) > 1 for runs in self.methods.values())
        return "Mean over seeds ± one standard error. " if several else ""

    @property
    def split(self) -> str:
        """The split that is compared: test where all trained tasks have it, else dev."""
        if self.comparison is not None:
            return self.comparison.split
        return self.runs[0].results.split


def read_report_data(folder: Path) -> ReportData:
    """The data of a run's folder, or of one that `gradaccord compare` wrote, finished or not."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder: give {WANTED}.")
    if Results.exists(folder):
        run = read_run(folder)
        return ReportData(folder, {run.results.method_name: [run]})
    runs = {(own.parent.name, _seed(own)): own for own in sorted(folder.glob("*/seed-*"))}
    runs = {key: own for key, own in runs.items() if key[1] >= 0}
    if not any(map(Results.exists, runs.values())):
        from gradaccord.meta.settings import SETTINGS

        if any((own / SETTINGS).is_file() for own in (folder, *folder.glob("seed-*"))):
            raise ValueError(
                f"{folder} holds a few-shot run: `gradaccord fewshot figures {folder}` draws it, and "
                "`fewshot eval` tests it."
            )
        state = "only unfinished runs" if runs or (folder / CONFIG).exists() else "no run"
        raise ValueError(f"{folder} holds {state}: give {WANTED} with at least one that is finished.")
    if Comparison.exists(folder):
        return _of_comparison(folder, runs, Comparison.read(folder))
    found = runs_in(runs.values())  # it was interrupted
    read = {run.folder: run.results for run in found if run.results is not None}
    return _of_comparison(folder, runs, summarise(found), read)


def read_run(folder: Path, every: int | None = None, results: Results | None = None) -> FinishedRun:
    """One finished run. every: of how many steps one is read; default: by the size of its log.

    results: its own, where they have been read already.
    """
    results = results or Results.read(folder)
    parts = [folder / folder_name(name) for name in results.trained]
    parts = [part for part in parts if (part / LOG).exists()]
    if (folder / LOG).exists() or not parts:
        parts = [folder]
    logs = [_read_log(part / LOG, every or _every(parts)) for part in parts]
    alone = len(parts) == 1
    config = next((p / CONFIG for p in (folder, *parts) if (p / CONFIG).exists()), None)
    about = next((p for p in (folder, *parts) if About.exists(p)), folder)
    return FinishedRun(
        folder=folder,
        results=results,
        steps=logs[0][0] if alone else Steps.side_by_side([steps for steps, _ in logs]),
        evaluations=results.evaluations
        if alone
        else _evaluations_side_by_side(folder, [evaluations for _, evaluations in logs]),
        about=read_about(about),
        config=config.read_text(encoding="utf-8", errors="replace") if config else "",
    )


def _every(folders: Iterable[Path]) -> int:
    """Every how many steps one is read: all logs together take seconds, however long they are."""
    logs = [path for own in folders for path in (own / LOG, *own.glob(f"*/{LOG}"))]
    return 1 + sum(path.stat().st_size for path in logs if path.exists()) // WHOLE


def _read_log(path: Path, every: int) -> tuple[Steps, list[dict[str, Any]]]:
    """The steps and the evaluations of a log, read line by line."""
    steps, evaluations = Steps(), []
    if path.exists():
        for record in records(path, every):
            step = StepRecord.of(record)
            if step is not None and step.phase == "main":
                steps.add(step)
            elif is_evaluation(record):
                evaluations.append(record)
    return steps, evaluations


def _of_comparison(
    folder: Path,
    runs: Mapping[tuple[str, int], Path],
    comparison: Comparison,
    results: Mapping[Path, Results] = MappingProxyType({}),
) -> ReportData:
    """The runs of a comparison, in its order. results: of runs that have been read already."""
    methods: dict[str, list[FinishedRun]] = {}
    unfinished = []
    every = _every(runs.values())
    for own in comparison.methods:
        place = Spec.parse(own.method).folder
        for seed in own.seeds:
            run = runs.get((place, seed))
            if run is not None and Results.exists(run):
                methods.setdefault(own.method, []).append(read_run(run, every, results.get(run)))
            else:
                unfinished.append(f"The folder of {own.method}, seed {seed}, is gone.")
        for seed, reason in own.missing.items():
            unfinished.append(f"{own.method}, seed {seed}: {reason}.")
    if not methods:
        raise ValueError(
            f"{folder} holds none of the runs that its {Comparison.FILE} names: give {WANTED}."
        )
    return ReportData(folder, methods, comparison, unfinished)


def _evaluations_side_by_side(
    folder: Path, logs: Sequence[Sequence[dict[str, Any]]]
) -> list[EvaluationRecord]:
    """The k-th evaluations of all models as one; each model has the scores of its own task."""
    try:
        parts = [[EvaluationRecord.model_validate(record) for record in log] for log in logs]
    except ValidationError as error:
        raise damaged(folder / LOG, first_mistake(error)) from error
    return [
        EvaluationRecord(
            step=max(one.step for one in several),
            gradients=sum(one.gradients for one in several),
            seconds=sum(one.seconds for one in several),
            average=statistics.fmean(one.average for one in several),
            scores={t: s for one in several for t, s in one.scores.items() if t in one.train_loss},
        )
        for several in zip(*parts, strict=False)
    ]


def _seed(folder: Path) -> int:
    number = folder.name.removeprefix("seed-")
    return int(number) if number.isdecimal() else -1
