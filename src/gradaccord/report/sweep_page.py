"""The page of a sweep: its best settings, which settings matter, and every trial."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from gradaccord.compare.statistics import Mean
from gradaccord.compare.study import has_study, read_study
from gradaccord.compare.sweep import BEST, FAILURE, trial_folder, write_best
from gradaccord.report.charts import bars, dots
from gradaccord.report.html_file import fill
from gradaccord.report.section import NONE, Cell, Figure, Section, Table, drawn, mean_cell, named
from gradaccord.report.svg import number
from gradaccord.runs.about import read_about
from gradaccord.runs.results import Results

SCORE = "dev average, %"


@dataclass(frozen=True)
class Sweep:
    """An Optuna study and its folder."""

    folder: Path
    study: Any
    trials: list[Any]  # all of them, in order
    importance: dict[str, float]  # of settings; empty if unknown

    @property
    def finished(self) -> list[Any]:
        """Those with a score."""
        return [trial for trial in self.trials if trial.value is not None]

    @property
    def best(self) -> Any:
        """The trial with the highest score."""
        return self.study.best_trial

    @property
    def settings(self) -> list[str]:
        """What was searched."""
        return list(dict.fromkeys(key for trial in self.trials for key in trial.params))


def is_sweep(folder: Path) -> bool:
    """Whether a folder is one of `gradaccord sweep`."""
    return has_study(folder)


def render_sweep(folder: Path) -> str:
    """The page as text; writes `best.yaml`, too."""
    study = read_study(folder)
    sweep = Sweep(folder, study, list(study.trials), importances(study))
    if not sweep.finished:
        raise ValueError(
            f"{folder} holds a sweep of which no trial is finished: run gradaccord sweep again."
        )
    best = write_best(sweep.study, folder)
    return fill(
        f"{folder.resolve().name}: a sweep over {', '.join(sweep.settings)}",
        f"{len(sweep.trials)} trials, {len(sweep.finished)} of them finished, scored on dev.",
        _findings(sweep, best),
        [
            Section("Best settings", tables=[_best(sweep)], texts={BEST: best.read_text("utf-8")}),
            Section("What matters", _why_no_importance(sweep), _by_value(sweep), _matters(sweep)),
            Section("Trials", tables=[_trials(sweep)], figures=drawn([_course(sweep)])),
            Section("How to run this again", tables=_again(sweep, best)),
        ],
    )


def importances(study: Any) -> dict[str, float]:
    """The share of the scores' variance that each setting explains, by fANOVA.

    Empty if it is unknown. Hutter, Hoos and Leyton-Brown 2014, as Optuna has it.
    """
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    if len({trial.value for trial in study.trials if trial.value is not None}) < 2:
        return {}
    try:
        found = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
    except RuntimeError:  # the scores have no variance
        return {}
    return {key: float(share) for key, share in found.items()}


def _findings(sweep: Sweep, best: Path) -> list[str]:
    chosen = ", ".join(f"{key} = {_shown(value)}" for key, value in sweep.best.params.items())
    median = statistics.median(trial.value for trial in sweep.finished)
    found = [
        f"Best on dev: trial {sweep.best.number} with {sweep.best.value:.2f} %, at {chosen}; "
        f"the median of {len(sweep.finished)} trials is {median:.2f} %.",
        f"The best of {len(sweep.finished)} looks better than it is, as dev chose it: evaluate it on "
        f"other seeds and the test split, e.g. with gradaccord compare {best}.",
    ]
    lost = len(sweep.trials) - len(sweep.finished)
    if lost:
        found.append(f"{lost} trial{'s' if lost > 1 else ''} did not finish; the table says why.")
    return found


def _best(sweep: Sweep) -> Table:
    rows = [
        [named(key), _cell(value), Cell(_range([t.distributions[key] for t in _with(sweep, key)]))]
        for key, value in sweep.best.params.items()
    ]
    caption = f"Of trial {sweep.best.number}; {BEST} beside this page has them with all other settings."
    return Table("best", "Settings of the best trial", ["setting", "best", "searched"], rows, caption)


def _matters(sweep: Sweep) -> list[Figure]:
    alt = "Share of the variance of the scores that each setting explains."
    figures = [
        Figure(
            "importance",
            "Importance of the settings",
            bars(list(sweep.importance.items()), "", alt),
            f"By fANOVA over {len(sweep.finished)} trials; with few trials it is a guess.",
        )
    ]
    for key in sweep.settings:
        trials = [t for t in _with(sweep, key) if t.value is not None and _is_number(t.params[key])]
        if not trials:
            continue
        log = all(getattr(trial.distributions[key], "log", False) for trial in trials)
        points = [
            (
                math.log10(trial.params[key]) if log else float(trial.params[key]),
                trial.value,
                f"trial {trial.number}: {key} {_shown(trial.params[key])}, {trial.value:.2f} %",
            )
            for trial in trials
        ]
        numbers = [trial.number for trial in trials]
        best = numbers.index(sweep.best.number) if sweep.best.number in numbers else -1
        label = f"log10 of {key}" if log else key
        alt = f"Score of {len(trials)} trials by {key}."
        svg = dots(points, best, label, SCORE, alt)
        figures.append(Figure(f"by-{key}", f"Score by {key}", svg, "The best trial is the large mark."))
    return drawn(figures)


def _why_no_importance(sweep: Sweep) -> list[str]:
    if sweep.importance:
        return []
    return ["Importance takes at least two finished trials with different scores."]


def _by_value(sweep: Sweep) -> list[Table]:
    """A table of the settings that are not numbers, which have no axis."""
    rows = []
    for key in sweep.settings:
        trials = [t for t in _with(sweep, key) if t.value is not None]
        if all(_is_number(trial.params[key]) for trial in trials):
            continue
        for value in dict.fromkeys(trial.params[key] for trial in trials):
            scores = [trial.value for trial in trials if trial.params[key] == value]
            most = Cell(f"{max(scores):.2f}", max(scores))
            count = Cell(str(len(scores)), float(len(scores)))
            rows.append([named(key), _cell(value), mean_cell(Mean.of(scores)), most, count])
    if not rows:
        return []
    headings = ["setting", "value", SCORE, "best, %", "trials"]
    caption = "Mean ± standard error over the trials with this value, whatever else they had."
    return [Table("by-value", "Settings that are not numbers", headings, rows, caption)]


def _trials(sweep: Sweep) -> Table:
    rows = []
    for trial in sweep.trials:
        seeds = _scores(sweep, trial)
        shown = Cell(NONE)
        if trial.value is not None:
            error = Mean.of(seeds).error
            spread = "" if math.isnan(error) else f" ± {error:.2f}"
            shown = Cell(f"{trial.value:.2f}{spread}", trial.value)
        took = _processor_seconds(sweep, trial)
        rows.append(
            [
                Cell(str(trial.number), float(trial.number)),
                shown,
                *(_cell(trial.params[k]) if k in trial.params else Cell(NONE) for k in sweep.settings),
                Cell(NONE) if took is None else Cell(f"{took:.0f}", took),
                named(_state(sweep, trial)),
            ]
        )
    rows.sort(key=lambda row: -row[1].sort if isinstance(row[1].sort, float) else math.inf)
    return Table(
        "trials",
        "All trials, the best first",
        ["trial", SCORE, *sweep.settings, "processor, s", "state"],
        rows,
        "Mean of the trained tasks' main metrics on dev, ± standard error over seeds where there are "
        "several. Processor time is that of all its runs.",
    )


def _course(sweep: Sweep) -> Figure:
    points = [(float(t.number), t.value, f"trial {t.number}: {t.value:.2f} %") for t in sweep.finished]
    so_far = list(accumulate((value for _, value, _ in points), max))
    steps = [(x, value) for (x, _, _), value in zip(points, so_far, strict=True)]
    best = [t.number for t in sweep.finished].index(sweep.best.number)
    alt = (
        f"Scores of {len(points)} trials in their order, from {min(p[1] for p in points):.2f} to "
        f"{so_far[-1]:.2f} %, and the best so far."
    )
    svg = dots(points, best, "trial", SCORE, alt, steps)
    return Figure("course", "Scores in the order of trials", svg, "The line is the best so far.")


def _again(sweep: Sweep, best: Path) -> list[Table]:
    rows = []
    about = read_about(sweep.folder)
    if about.command:
        rows.append([named("the sweep"), Cell(shlex.join(about.command))])
    rows.append([named("its best settings"), Cell(shlex.join(["gradaccord", "train", str(best)]))])
    rows.append([named("this page"), Cell(shlex.join(["gradaccord", "report", str(sweep.folder)]))])
    return [Table("commands", "Commands", ["what", "command"], rows)]


def _state(sweep: Sweep, trial: Any) -> str:
    if trial.number == sweep.best.number:
        return "best"
    if trial.value is not None:
        return "finished"
    return str(trial.user_attrs.get(FAILURE, "interrupted"))


def _scores(sweep: Sweep, trial: Any) -> list[float]:
    """The dev scores of a trial's runs."""
    return [results.average("dev") for results in _results(sweep, trial)]


def _processor_seconds(sweep: Sweep, trial: Any) -> float | None:
    """Processor time of a trial's runs together; None if one is unknown or did not end."""
    known = [results.cost.cpu_seconds for results in _results(sweep, trial)]
    spent = [seconds for seconds in known if seconds is not None]
    return sum(spent) if trial.value is not None and spent and len(spent) == len(known) else None


def _results(sweep: Sweep, trial: Any) -> list[Results]:
    places = sorted(trial_folder(sweep.folder, trial).glob("seed-*"))
    return [Results.read(place) for place in places if Results.exists(place)]


def _with(sweep: Sweep, key: str) -> list[Any]:
    return [trial for trial in sweep.trials if key in trial.params]


def _range(tried: Sequence[Any]) -> str:
    """The range of a setting; a sweep that is continued may have several."""
    found: dict[str, None] = {}
    for one in tried:
        if hasattr(one, "choices"):
            found[", ".join(_shown(choice) for choice in one.choices)] = None
        else:
            scale = ", on a log scale" if one.log else ""
            found[f"{_shown(one.low)} to {_shown(one.high)}{scale}"] = None
    return "; ".join(found)


def _cell(value: Any) -> Cell:
    return Cell(_shown(value), float(value) if _is_number(value) else str(value))


def _shown(value: Any) -> str:
    return number(float(f"{value:.4g}")) if _is_number(value) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
