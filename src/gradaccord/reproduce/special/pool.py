"""The special experiments by name, and a pool of processes for their missing runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from gradaccord.compare.processes import POLL, Pace, Progress, Runner
from gradaccord.core.did_you_mean import nearest
from gradaccord.reproduce.plan import Planned
from gradaccord.reproduce.records import RunRecord
from gradaccord.reproduce.special.outcome import Experiment, measured
from gradaccord.runs.exceptions import Interrupted

EXPERIMENTS = ("fewshot", "landscape", "spurious_cues", "valley")  # each a module and its function


@dataclass
class SpecialRun:
    """A run of the pool, as a screen shows it."""

    kind: str
    planned: Planned
    folder: Path
    done: bool = False
    failure: str | None = None
    now: str = ""

    @property
    def label(self) -> str:
        """Variant, arm, budget and seed."""
        return self.planned.label

    @property
    def going(self) -> bool:
        """Whether it has begun and not ended."""
        return not self.done and self.folder.exists()

    @property
    def share(self) -> float:
        """How far it is, where the kind's module has a function `share` that can tell."""
        found = getattr(_module(self.kind), "share", None)
        if found is None or not self.going:
            return float(self.done)
        return float(found(self.planned.settings, self.folder))


def find_experiment(kind: str) -> Experiment:
    """The function behind a kind of entry."""
    if kind not in EXPERIMENTS:
        raise ValueError(f"`kind` is {kind!r}: {nearest(kind, ('compare', 'data', *EXPERIMENTS))}")
    found: Experiment = getattr(_module(kind), kind)
    return found


def run_specials(
    kind: str,
    wanted: Sequence[Planned],
    data: Path | None,
    out: Path,
    results: Path,
    runner: Runner,
    show: Callable[[Progress], None],
    say: Callable[[str], None],
) -> dict[str, str]:
    """Do runs; returns label -> reason of those that failed. Each writes its record when it is done."""
    find_experiment(kind)
    runs = [SpecialRun(kind, one, one.folder(out)) for one in wanted]
    pace = Pace(runs)

    def keep(run: SpecialRun, found: dict[str, Any]) -> None:
        record = RunRecord(**run.planned.key, **found)
        record.save(run.planned.path(results).parent)
        say(f"{run.label}: average {record.value():.4g}, {record.cost.seconds:.1f} s")

    with runner.pool() as pool:
        going = {
            pool.submit(_one, kind, run.planned.settings, run.planned.seed, data, run.folder): run
            for run in runs
        }
        try:
            while going:
                for ended in wait(going, timeout=POLL, return_when=FIRST_COMPLETED).done:
                    run = going.pop(ended)
                    try:
                        keep(run, ended.result())
                    except Interrupted as error:
                        raise KeyboardInterrupt from error
                    except Exception as error:  # one run's failure leaves the others going
                        run.failure = str(error) or type(error).__name__
                    run.done = True
                show(pace.progress())
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise
    return {run.label: run.failure for run in runs if run.failure is not None}


def _module(kind: str) -> ModuleType:
    return import_module(f"gradaccord.reproduce.special.{kind}")


def _one(
    kind: str, settings: dict[str, Any], seed: int, data: Path | None, folder: Path
) -> dict[str, Any]:
    return measured(find_experiment(kind), settings, seed, data, folder)
