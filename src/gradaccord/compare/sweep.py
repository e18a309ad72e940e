"""`gradaccord sweep`: which options are best, by Optuna, kept on disk and resumed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gradaccord.compare.processes import WANTED, Progress, Run, run_all
from gradaccord.compare.specs import Spec, read_value
from gradaccord.runs.files import RunFolderError
from gradaccord.train.config import Config
from gradaccord.train.config_file import check_config, read_own_config, set_value, write_config

STORAGE = "sweep.db"
BEST = "best.yaml"
FAILURE = "failure"  # of a trial: what became of it
STUDY = "gradaccord"


@dataclass(frozen=True)
class Range:
    """What an option may be: some values, or numbers between two (by their logarithm if wide)."""

    key: str
    values: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False

    @classmethod
    def parse(cls, text: str) -> Range:
        """From `method.weight=0.01..1`, `train.lr=1e-5..1e-3` or `method.every=2,5,10`."""
        key, equals, given = text.partition("=")
        if not equals or not given.strip():
            raise ValueError(
                f"The range {text!r} has no values: write key=LOW..HIGH or key=A,B,C, such as "
                "method.weight=0.01..1."
            )
        if ".." not in given:
            return cls(key.strip(), tuple(read_value(part) for part in given.split(",")))
        low, _, high = given.partition("..")
        try:
            first, last = float(low), float(high)
        except ValueError:
            raise ValueError(
                f"The range {text!r} is not between two numbers: write LOW..HIGH."
            ) from None
        if not first < last:
            raise ValueError(f"The range {text!r} is empty: the lower number comes first.")
        whole = low.strip().isdigit() and high.strip().isdigit()
        return cls(key.strip(), low=first, high=last, log=first > 0 and last / first >= 10, whole=whole)

    def suggest(self, trial: Any) -> Any:
        """A value for a trial."""
        if self.values:
            return trial.suggest_categorical(self.key, list(self.values))
        if self.whole:
            return trial.suggest_int(self.key, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(self.key, self.low, self.high, log=self.log)


def sweep(
    base: Config,
    ranges: Sequence[Range],
    *,
    trials: int,
    seeds: int,
    folder: Path,
    data: Path | None,
    jobs: int,
    show: Callable[[Progress], None] = lambda progress: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> Any:
    """Up to `trials` finished trials in all, each a run per seed scored on dev; the Optuna study.

    Only dev is looked at: test is for the settings that were chosen. A sweep that was interrupted or
    killed goes on with the trial it was at, and tries the settings it would have tried.
    """
    from sqlalchemy.exc import SQLAlchemyError

    try:
        return _sweep(base, ranges, trials, seeds, folder, data, jobs, show, say)
    except SQLAlchemyError as error:  # of Optuna's file, in the middle
        raise _full(folder / STORAGE, error) from error


def _sweep(
    base: Config,
    ranges: Sequence[Range],
    trials: int,
    seeds: int,
    folder: Path,
    data: Path | None,
    jobs: int,
    show: Callable[[Progress], None],
    say: Callable[[str], None],
) -> Any:
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    study = _study(folder)
    done = sum(t.state == optuna.trial.TrialState.COMPLETE for t in study.trials)
    unfinished = [
        optuna.trial.Trial(study, t._trial_id)
        for t in study.trials
        if t.state == optuna.trial.TrialState.RUNNING
    ]
    for _ in range(trials - done):
        trial = unfinished.pop(0) if unfinished else study.ask()
        # Of the trial's own seed: its settings depend on the trials before it and on nothing else.
        seed = base.train.seed + trial.number
        study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=5)
        try:
            chosen = {one.key: one.suggest(trial) for one in ranges}
            runs = _runs(base, chosen, seeds, trial_folder(folder, trial))
            run_all(runs, data=data, jobs=jobs, show=show, say=say)
        except Exception:
            with suppress(SQLAlchemyError):
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            raise
        scores = [run.results.average("dev") for run in runs if run.results is not None]
        shown = settings_text(chosen)
        if len(scores) < len(runs):
            failure = next(run.failure for run in runs if run.failure is not None)
            trial.set_user_attr(FAILURE, failure)
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            say(f"trial {trial.number}: {shown}: {failure}")
            continue
        value = sum(scores) / len(scores)
        study.tell(trial, value)
        done += 1
        write_best(study, folder)
        say(f"trial {trial.number}: {shown}: dev average {value:.2f}")
    if done:
        write_best(study, folder)  # which a kill may have prevented
    return study


def _study(folder: Path) -> Any:
    """The study in the folder, a new one if there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    return _opened(folder, "create_study", direction="maximize", load_if_exists=True)


def read_study(folder: Path) -> Any:
    """The Optuna study that a sweep left in its folder."""
    return _opened(folder, "load_study")


def _opened(folder: Path, how: str, **options: Any) -> Any:
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = folder / STORAGE
    connect = partial(
        sqlite3.connect, path, check_same_thread=False
    )  # an address may not hold any name
    try:
        storage = optuna.storages.RDBStorage(f"sqlite:///{STORAGE}", {"creator": connect})
        study = getattr(optuna, how)(study_name=STUDY, storage=storage, **options)
        study.get_trials()  # also of a file that is damaged further on
    except Exception as error:
        if isinstance(error, SQLAlchemyError) and _is_full(error):
            raise _full(path, error) from error
        raise ValueError(
            f"{path} holds no sweep, or is damaged: remove it, or sweep into another --out."
        ) from error
    return study


def _is_full(error: BaseException) -> bool:
    return "full" in str(error)  # in SQLite's words, a database or disk is


def _full(path: Path, error: BaseException) -> RunFolderError:
    why = str(getattr(error, "orig", None) or error).splitlines()[0]
    return RunFolderError(f"{path} cannot be written ({why}): make room, and repeat the command.")


def settings_text(chosen: Mapping[str, Any]) -> str:
    """Settings in short; `best.yaml` has every digit."""
    return ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in chosen.items()
    )


def trial_folder(folder: Path, trial: Any) -> Path:
    """Where a trial's runs are, one a seed."""
    return folder / f"trial-{trial.number:03d}"


def write_best(study: Any, folder: Path) -> Path:
    """The configuration of the best trial as a file for `gradaccord train`, with the first seed."""
    runs = sorted(trial_folder(folder, study.best_trial).glob(f"seed-*/{WANTED}"))
    if not runs:
        raise ValueError(
            f"{trial_folder(folder, study.best_trial)}, the best trial, is gone: run the sweep again."
        )
    write_config(read_own_config(min(runs, key=lambda path: int(path.parent.name[5:]))), folder / BEST)
    return folder / BEST


def _runs(base: Config, chosen: Mapping[str, Any], seeds: int, folder: Path) -> list[Run]:
    plain = base.model_dump(mode="json")
    for key, value in chosen.items():
        set_value(plain, key, value, f"The range of {key!r}")
    changed = check_config(plain, source="The sweep")
    spec = Spec(changed.method.name, tuple(changed.method.options.items()))
    return [
        Run(
            spec,
            seed,
            folder / f"seed-{seed}",
            changed.model_copy(update={"train": changed.train.model_copy(update={"seed": seed})}),
        )
        for seed in range(base.train.seed, base.train.seed + seeds)
    ]
