"""Does the missing runs of an entry in parallel processes; each run leaves a record."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from gradaccord.compare.budget import budget_of
from gradaccord.compare.processes import Processes, Progress, Run, Runner, run_all
from gradaccord.compare.specs import Spec
from gradaccord.reproduce.encoders import record_encoders
from gradaccord.reproduce.entry import COMPARE, DATA, Entry, Plain
from gradaccord.reproduce.merge import merged
from gradaccord.reproduce.plan import Planned, missing
from gradaccord.reproduce.records import RunRecord, from_training
from gradaccord.reproduce.special.pool import run_specials
from gradaccord.runs.checkpoints import CHECKPOINTS
from gradaccord.runs.files import MODEL
from gradaccord.runs.lock import locked
from gradaccord.train.config import Config
from gradaccord.train.config_file import check_config
from gradaccord.train.paths import located
from gradaccord.train.problem import load_problem

BEST = "best"  # the folder of the best weights so far


@dataclass
class Folders:
    """The folders of an experiment. data: data sets; out: runs; results: records."""

    data: Path | None = None
    out: Path = Path("runs/reproduce")
    results: Path = Path("results")


@dataclass
class ArmRun(Run):
    """A training run that leaves a record."""

    planned: Planned = field(kw_only=True)

    @property
    def label(self) -> str:
        """Its name on a screen."""
        return self.planned.label


def run_entry(
    entry: Entry,
    planned: Sequence[Planned],
    folders: Folders,
    *,
    runner: Runner | None = None,
    keep: bool = False,
    show: Callable[[Progress], None] = lambda progress: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> dict[str, str]:
    """Do the runs that have no record yet; returns label -> reason of those that failed.

    Ctrl-C saves every run. runner: default: this machine, one run after another. keep: keep models and
    checkpoints, which are otherwise removed once a run has its record.
    """
    wanted = missing(planned, folders.results)
    if entry.kind == DATA or not wanted:
        return {}
    out, runner = folders.out / entry.runs, runner or Processes(1)
    with locked(out):
        if entry.kind != COMPARE:
            return run_specials(
                entry.kind, wanted, folders.data, out, folders.results, runner, show, say
            )
        return _train(wanted, folders, out, runner, keep, show, say)


def config_of(planned: Planned, data: Path | None) -> Config:
    """The checked configuration of one run, with seed and budget. data: where its paths start."""
    content, source = planned.settings, f"{planned.entry}, {planned.label}"
    if planned.budget == "gradients":
        base = _checked(planned.base, data, source)
        content = merged(content, {"train": {"gradients": _gradients(base.model_dump_json(), data)}})
    return _checked(merged(content, {"train": {"seed": planned.seed}}), data, source)


def _checked(content: Plain, data: Path | None, source: str) -> Config:
    return check_config(located(content, data.resolve()) if data else content, source=source)


@cache
def _gradients(config: str, data: Path | None) -> int:
    """The budget of a configuration in JSON; to count epochs the data has to be read."""
    read = Config.model_validate_json(config)
    return read.train.gradients or int(budget_of(read, load_problem(read, data)).amount)


def _train(
    wanted: Sequence[Planned],
    folders: Folders,
    out: Path,
    runner: Runner,
    keep: bool,
    show: Callable[[Progress], None],
    say: Callable[[str], None],
) -> dict[str, str]:
    record_encoders([planned.settings for planned in wanted], folders.results)
    runs: list[ArmRun] = []
    for planned in wanted:
        config = config_of(planned, folders.data)
        spec = Spec(config.method.name, tuple(config.method.options.items()))
        runs.append(ArmRun(spec, planned.seed, planned.folder(out), config, planned=planned))
    written: set[int] = set()

    def record(progress: Progress | None = None) -> None:
        for number, run in enumerate(runs):
            if run.results is not None and number not in written:
                written.add(number)
                found = RunRecord(**run.planned.key, **from_training(run.results, run.folder))
                found.save(run.planned.path(folders.results).parent)
                average = f"{found.split} average {found.value():.2f}"
                say(f"{run.label}: {average}, {found.cost.seconds:.0f} s")
                if not keep:
                    _remove_weights(run.folder)
        if progress is not None:
            show(progress)

    try:
        run_all(runs, data=folders.data, runner=runner, show=record)
    finally:
        record()
    return {run.label: run.failure for run in runs if run.failure is not None}


def _remove_weights(folder: Path) -> None:
    for name in (CHECKPOINTS, MODEL, BEST):
        for place in (folder / name, *folder.glob(f"*/{name}")):
            shutil.rmtree(place, ignore_errors=True)
