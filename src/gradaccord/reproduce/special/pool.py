"""The special experiments by name, and a pool of processes for their missing runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from importlib import import_module
from pathlib import Path
from typing import Any

from gradaccord.compare.processes import Runner
from gradaccord.core.did_you_mean import nearest
from gradaccord.reproduce.plan import Planned
from gradaccord.reproduce.records import RunRecord
from gradaccord.reproduce.special.outcome import Experiment, measured
from gradaccord.runs.exceptions import Interrupted

EXPERIMENTS = ("fewshot", "landscape", "spurious_cues", "valley")  # modules with a function of the name


def find_experiment(kind: str) -> Experiment:
    """The function behind a kind of entry."""
    if kind not in EXPERIMENTS:
        raise ValueError(f"`kind` is {kind!r}: {nearest(kind, ('compare', 'data', *EXPERIMENTS))}")
    found: Experiment = getattr(import_module(f"gradaccord.reproduce.special.{kind}"), kind)
    return found


def run_specials(
    kind: str,
    wanted: Sequence[Planned],
    data: Path | None,
    out: Path,
    results: Path,
    runner: Runner,
    say: Callable[[str], None],
) -> dict[str, str]:
    """Do runs; returns label -> reason of those that failed. Each writes its record when it is done."""
    find_experiment(kind)
    failures: dict[str, str] = {}

    def keep(planned: Planned, found: dict[str, Any]) -> None:
        record = RunRecord(**planned.key, **found)
        record.save(planned.path(results).parent)
        say(f"{planned.label}: average {record.value():.4g}, {record.cost.seconds:.1f} s")

    with runner.pool() as pool:
        going = {
            pool.submit(_one, kind, one.settings, one.seed, data, one.folder(out)): one
            for one in wanted
        }
        try:
            for done in as_completed(going):
                try:
                    keep(going[done], done.result())
                except (ValueError, OSError, RuntimeError) as error:
                    failures[going[done].label] = str(error)
                except Interrupted as error:
                    raise KeyboardInterrupt from error
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise
    return failures


def _one(
    kind: str, settings: dict[str, Any], seed: int, data: Path | None, folder: Path
) -> dict[str, Any]:
    return measured(find_experiment(kind), settings, seed, data, folder)
