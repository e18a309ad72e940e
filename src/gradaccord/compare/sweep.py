"""Hyper-parameter search by Optuna (`gradaccord sweep`), kept on disk and resumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock

from gradaccord.compare.processes import WANTED, Progress, Run, Runner, run_all
from gradaccord.compare.specs import Spec
from gradaccord.compare.study import file_of, full, keep_copy, open_study
from gradaccord.runs.config_files import read_value, set_value, write_config
from gradaccord.runs.files import RunFolderError
from gradaccord.runs.lock import locked
from gradaccord.train.config import Config
from gradaccord.train.config_file import check_config, read_own_config

BEST = "best.yaml"
FAILURE = "failure"  # of a trial: why it failed
CHOOSING = ".choosing"  # the lock of the folder that several commands share


@dataclass(frozen=True)
class Range:
    """What an option may be: some values, or numbers between two (on a log scale if wide)."""

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
            raise ValueError(f"The range {text!r} is empty: give the lower number first.")
        whole = low.strip().isdigit() and high.strip().isdigit()
        return cls(key.strip(), low=first, high=last, log=first > 0 and last / first >= 10, whole=whole)

    def suggest(self, trial: Any) -> Any:
        """A value for a trial."""
        if self.values:
            return trial.suggest_categorical(self.key, list(self.values))
        if self.whole:
            return trial.suggest_int(self.key, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(self.key, self.low, self.high, log=self.log)


def one_command_in(folder: Path) -> FileLock:
    """A lock: no other command takes a trial of a shared sweep or writes its files."""
    return FileLock(folder / CHOOSING, is_singleton=True)  # so that it can be entered twice


def sweep(
    base: Config,
    ranges: Sequence[Range],
    *,
    trials: int,
    seeds: int,
    folder: Path,
    data: Path | None,
    runner: Runner,
    storage: str | None = None,
    show: Callable[[Progress], None] = lambda progress: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> Any:
    """Up to `trials` finished trials in all, each a run per seed scored on dev; the Optuna study.

    Only dev is looked at: test is for the settings that were chosen. A sweep that was interrupted or
    killed goes on with the trial it was at, and tries the settings it would have tried.

    storage: where the study is kept (`compare.study`), so that commands on several machines can work
    on the trials of one folder.
    """
    from sqlalchemy.exc import SQLAlchemyError

    try:
        study = open_study(folder, storage)
        search = _Search(base, ranges, seeds, folder, study, storage is not None, say)
        attempts = trials - search.complete()
        while attempts > 0:
            with ExitStack() as stack:
                batch = search.take(trials, attempts, partial(runner.at_once, data=data), stack)
                attempts -= len(batch)
                if not batch:
                    break
                runs = [run for own in batch for run in own.runs]
                try:
                    run_all(runs, data=data, runner=runner, show=show, say=say)
                except Exception:
                    search.give_up(batch)
                    raise
                for own in batch:
                    search.conclude(own)
        if search.complete():
            write_best(study, folder)  # which a kill may have prevented
        if storage not in (None, "journal"):
            with one_command_in(folder):
                keep_copy(study, folder)
    except SQLAlchemyError as error:  # of Optuna's file, in the middle
        raise full(file_of(folder, storage), error) from error
    return study


@dataclass
class _OwnTrial:
    """A trial of this command."""

    trial: Any
    chosen: dict[str, Any] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)


@dataclass
class _Search:
    """Takes the trials that are to be done here, and records their results."""

    base: Config
    ranges: Sequence[Range]
    seeds: int
    folder: Path
    study: Any
    shared: bool  # with commands elsewhere
    say: Callable[[str], None]

    def complete(self) -> int:
        """Finished trials, of all commands."""
        return len(self._numbered("COMPLETE"))

    def _numbered(self, state: str) -> list[Any]:
        return [trial for trial in self.study.get_trials(deepcopy=False) if trial.state.name == state]

    def take(
        self, trials: int, most: int, fitting: Callable[[list[Run]], int], stack: ExitStack
    ) -> list[_OwnTrial]:
        """As many trials as can be done side by side, `most` at most; none if all are done or going.

        fitting: how many of them, by the runs of one. Each is locked until `stack` is left, by which
        commands elsewhere know that it is going.
        """
        batch: list[_OwnTrial] = []
        with one_command_in(self.folder):
            at_once = 1
            while len(batch) < min(at_once, most):
                trial = self._next(trials, stack)
                if trial is None:
                    break
                batch.append(_OwnTrial(trial))
                self._choose(batch[-1], alone=at_once == 1 and not self.shared)
                at_once = fitting(batch[0].runs)
        return batch

    def _next(self, trials: int, stack: ExitStack) -> Any:
        """A trial that was left unfinished, else a new one, and its lock."""
        import optuna

        going = self._numbered("RUNNING")
        for unfinished in going:
            with suppress(RunFolderError):
                stack.enter_context(locked(trial_folder(self.folder, unfinished)))
                return optuna.trial.Trial(self.study, unfinished._trial_id)
        if self.complete() + len(going) >= trials:
            if going:
                self.say(f"The other {len(going)} of {trials} trials are going already.")
            return None
        trial = self.study.ask()
        stack.enter_context(locked(trial_folder(self.folder, trial)))
        return trial

    def _choose(self, own: _OwnTrial, alone: bool) -> None:
        """Choose its settings and runs. alone: no other trial is going, so none is avoided."""
        import optuna

        # Seeded by the trial: its settings depend on the trials before it and on nothing else.
        seed = self.base.train.seed + own.trial.number
        self.study.sampler = optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=5, constant_liar=not alone
        )
        try:
            own.chosen = {one.key: one.suggest(own.trial) for one in self.ranges}
            own.runs = self._runs(own.chosen, trial_folder(self.folder, own.trial))
        except Exception:
            self.give_up([own])
            raise

    def _runs(self, chosen: Mapping[str, Any], folder: Path) -> list[Run]:
        plain = self.base.model_dump(mode="json")
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
            for seed in range(self.base.train.seed, self.base.train.seed + self.seeds)
        ]

    def give_up(self, batch: Sequence[_OwnTrial]) -> None:
        """Mark trials as failed, for an error that another attempt would meet again."""
        import optuna
        from sqlalchemy.exc import SQLAlchemyError

        with suppress(SQLAlchemyError):
            for own in batch:
                self.study.tell(own.trial, state=optuna.trial.TrialState.FAIL)

    def conclude(self, own: _OwnTrial) -> None:
        """Tell Optuna and the user the result of a trial."""
        import optuna

        shown = f"trial {own.trial.number}: {settings_text(own.chosen)}"
        scores = [run.results.average("dev") for run in own.runs if run.results is not None]
        if len(scores) < len(own.runs):
            failure = next(run.failure for run in own.runs if run.failure is not None)
            own.trial.set_user_attr(FAILURE, failure)
            self.study.tell(own.trial, state=optuna.trial.TrialState.FAIL)
            self.say(f"{shown}: {failure}")
            return
        value = sum(scores) / len(scores)
        self.study.tell(own.trial, value)
        write_best(self.study, self.folder)
        self.say(f"{shown}: dev average {value:.2f}")


def settings_text(chosen: Mapping[str, Any]) -> str:
    """Settings with four digits; `best.yaml` has all."""
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
    best = read_own_config(min(runs, key=lambda path: int(path.parent.name[5:])))
    with one_command_in(folder):
        write_config(best, folder / BEST)
    return folder / BEST
