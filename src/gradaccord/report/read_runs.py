"""What a report is about: the runs below a folder, with their logs, grouped by method."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradaccord.runs.files import ABOUT, CONFIG, LOG, RESULTS, read_json
from gradaccord.runs.log import read_log
from gradaccord.runs.results import main_scores

COMPARISON = "comparison.json"
WANTED = "a folder of `gradaccord train`, `compare` or `sweep`"


@dataclass(frozen=True)
class RunRead:
    """One run. A run of `stl` has the curves of its tasks' models laid side by side."""

    folder: Path
    results: dict[str, Any]
    steps: list[dict[str, Any]]  # the log's, the warm start left out
    evaluations: list[dict[str, Any]]
    about: dict[str, Any]
    config: str

    @property
    def seed(self) -> int:
        """As configured."""
        return int(self.results["seed"])

    @property
    def trained(self) -> list[str]:
        """The tasks that were trained on."""
        return list(self.results["trained"])

    def main(self, split: str) -> dict[str, float]:
        """Every task's main metric, in percent."""
        return main_scores(self.results, split)


@dataclass(frozen=True)
class Material:
    """Everything below a folder."""

    folder: Path
    methods: dict[str, list[RunRead]]  # those with a finished run, the baseline first
    comparison: dict[str, Any] | None = None  # what comparison.json holds; None for a single run
    unfinished: list[str] = field(default_factory=list)  # runs without results, as sentences

    @property
    def runs(self) -> list[RunRead]:
        """All of them."""
        return [run for runs in self.methods.values() for run in runs]

    @property
    def split(self) -> str:
        """The one that counts: test where all trained tasks have it, else dev."""
        if self.comparison is not None:
            return str(self.comparison["split"])
        first = self.runs[0]
        return "test" if all(task in first.results["test"] for task in first.trained) else "dev"


def read_material(folder: Path) -> Material:
    """A run's folder, or one that `gradaccord compare` wrote, be it finished or not."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder: give {WANTED}.")
    if (folder / RESULTS).exists():
        run = read_run(folder)
        return Material(folder, {str(run.results["method"]["name"]): [run]})
    runs = {(own.parent.name, _seed(own)): own for own in sorted(folder.glob("*/seed-*"))}
    if not any((own / RESULTS).exists() for own in runs.values()):
        state = "only unfinished runs" if runs or (folder / CONFIG).exists() else "no run"
        raise ValueError(f"{folder} holds {state}: give {WANTED} with at least one that is finished.")
    path = folder / COMPARISON
    comparison = _load(path) if path.exists() else _compared(runs.values())
    return _gathered(folder, runs, comparison)


def read_run(folder: Path) -> RunRead:
    """One finished run."""
    results = _load(folder / RESULTS)
    parts = [folder / name for name in results["trained"] if (folder / name / LOG).exists()]
    if (folder / LOG).exists() or not parts:
        parts = [folder]
    logs = [read_log(part / LOG) if (part / LOG).exists() else [] for part in parts]
    steps = [[r for r in log if r.get("event") == "step" and r.get("phase") == "main"] for log in logs]
    judged = [[r for r in log if r.get("event") == "evaluation"] for log in logs]
    alone = len(parts) == 1
    config = next((p / CONFIG for p in (folder, *parts) if (p / CONFIG).exists()), None)
    about = next((p / ABOUT for p in (folder, *parts) if (p / ABOUT).exists()), None)
    return RunRead(
        folder=folder,
        results=results,
        steps=steps[0] if alone else _steps_side_by_side(steps),
        evaluations=results["evaluations"] if alone else _judged_side_by_side(judged),
        about=_load(about) if about else {},
        config=config.read_text(encoding="utf-8") if config else "",
    )


def _gathered(
    folder: Path, runs: Mapping[tuple[str, int], Path], comparison: dict[str, Any]
) -> Material:
    """The runs that the comparison speaks of, in its order."""
    from gradaccord.compare.specs import Spec

    methods: dict[str, list[RunRead]] = {}
    unfinished = []
    for entry in comparison["methods"]:
        name = str(entry["method"])
        place = Spec.parse(name).folder
        for seed in entry["seeds"]:
            own = runs.get((place, int(seed)))
            if own is not None and (own / RESULTS).exists():
                methods.setdefault(name, []).append(read_run(own))
            else:
                unfinished.append(f"The folder of {name}, seed {seed}, is gone.")
        for seed, reason in entry["missing"].items():
            unfinished.append(f"{name}, seed {seed}: {reason}.")
    if not methods:
        raise ValueError(f"{folder} holds none of the runs that its {COMPARISON} names: give {WANTED}.")
    return Material(folder, methods, comparison, unfinished)


def _compared(folders: Iterable[Path]) -> dict[str, Any]:
    """What `gradaccord compare` would write now, had it not been cut short."""
    from gradaccord.compare.runs import WANTED as GIVEN
    from gradaccord.compare.runs import Run
    from gradaccord.compare.specs import Spec
    from gradaccord.compare.summary import summarise
    from gradaccord.compare.tables import to_json
    from gradaccord.train.config_file import read_config

    configs = {}
    for own in folders:
        given = next((own / name for name in (GIVEN, CONFIG) if (own / name).exists()), None)
        if given is not None:
            configs[own] = read_config(given)
    added = {own: [term.name for term in config.regularize] for own, config in configs.items()}
    for own, config in configs.items():
        if config.train.optimizer.name == "recadam":
            added[own].append("recadam")
    common = set.intersection(
        *(set(names) for names in added.values())
    )  # the file's own, not a method's
    runs = []
    for own, config in configs.items():
        terms = tuple(name for name in added[own] if name not in common)
        spec = Spec(config.method.name, tuple(config.method.options.items()), terms)
        results = _load(own / RESULTS) if (own / RESULTS).exists() else None
        failure = None if results is not None else "not finished"
        runs.append(Run(spec, config.train.seed, own, config, results, failure))
    runs.sort(key=lambda run: run.spec != Spec("sum"))
    return to_json(summarise(runs))


def _steps_side_by_side(parts: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Steps of models that were trained one after another, as if all had been trained at once."""
    steps = [{**r, "gradients": r["gradients"] * len(parts)} for part in parts for r in part]
    return sorted(steps, key=lambda record: record["gradients"])


def _judged_side_by_side(parts: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The k-th evaluations of all models as one; each model judges the task it was trained on."""
    return [
        {
            "gradients": sum(one["gradients"] for one in several),
            "average": statistics.fmean(one["average"] for one in several),
            "scores": {
                t: s for one in several for t, s in one["scores"].items() if t in one["train_loss"]
            },
        }
        for several in zip(*parts, strict=False)
    ]


def _seed(folder: Path) -> int:
    number = folder.name.removeprefix("seed-")
    return int(number) if number.isdigit() else -1


def _load(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is damaged ({error}): run the command that wrote it again."
        ) from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds no JSON object: give {WANTED}.")
    return content
