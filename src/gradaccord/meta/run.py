"""One few-shot run: train, validate, keep the best, test; a kill at any moment resumes bit-equal.

    run = Run(settings_for("maml"), load("glyphs"), Path("runs/mine/seed-0"), seed=0)
    run.train()
    print(run.test().single)

In the run's folder: `settings.json`, `about.json`, `log.jsonl` (a line for each iteration and
validation), `checkpoints/` (the last two, with all that is needed to resume), `best-<iteration>.pt`
(the best by validation accuracy) and `results.json`. One process at a time works in it.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gradaccord.core.replay import seeded
from gradaccord.data.images.class_folders import ImageClasses
from gradaccord.data.images.class_splits import ClassSplits
from gradaccord.meta.build import build_learner, build_network, build_optimizer, rate_at
from gradaccord.meta.episodes.image_tasks import Episodes, FixedTasks
from gradaccord.meta.evaluation import evaluate, evaluate_ensemble
from gradaccord.meta.results import FewShotResults
from gradaccord.meta.settings import LIMITS, FewShotSettings
from gradaccord.runs.about import about
from gradaccord.runs.checkpoints import CHECKPOINTS, CheckpointError, Checkpoints, checksum, fitting
from gradaccord.runs.files import ABOUT, LOG, RunFolderError, read_tensors, write_json, write_tensors
from gradaccord.runs.lock import locked
from gradaccord.runs.log import Log, cut_to_size, read_log

SETTINGS = "settings.json"
OLD_CHECKPOINT = "checkpoint.pt"  # of release 0.1, which had a single one
VALIDATION_SEED, TEST_SEED = 1, 2  # of the fixed tasks: the same for every run and method
SAVE_EVERY = 60.0  # seconds between two checkpoints
CURVE = 10  # inner steps that the adaptation curve shows at least
MOST_FAILURES = 20  # iterations in a row without a finite gradient


@dataclass
class RunProgress:
    """How far a run is, for progress displays."""

    iteration: int
    iterations: int | None
    seconds: float
    minutes: float | None
    loss: float = float("nan")  # these three: running means over some 20 iterations
    accuracy: float = float("nan")
    pace: float = float("nan")  # seconds per iteration
    validation: tuple[float, float] | None = None  # latest accuracy and interval, in percent
    best: float | None = None
    sigma_m: tuple[float, ...] = ()
    sigma_lambda: tuple[float, ...] = ()
    doing: str = "training"  # or what is done beside it, with the share that is done
    evaluation_left: float = 0.0  # seconds that validations and the test still take

    @property
    def share(self) -> float:
        """How much of the run is over, 0 to 1, by iterations or by time, whichever ends it first."""
        by_step = self.iteration / self.iterations if self.iterations else 0.0
        by_time = self.seconds / (60 * self.minutes) if self.minutes else 0.0
        return min(1.0, max(by_step, by_time))

    @property
    def seconds_left(self) -> float:
        """Expected, with validations and the test once a validation has been timed."""
        left = [(self.iterations - self.iteration) * self.pace] if self.iterations else []
        if self.minutes:
            left.append(60 * self.minutes - self.seconds)
        return max(0.0, min(left)) + self.evaluation_left


class Run:
    """A run in its folder; an unfinished one there is resumed (same settings, other limits).

    With `minutes` the outer rate of a schedule follows the clock, and so does the end of the run:
    such a run is resumed where it stopped, but no two are bit-equal.

    say: called with a sentence for each damaged checkpoint that is skipped; warns by default.
    """

    def __init__(
        self,
        settings: FewShotSettings,
        data: ClassSplits,
        folder: Path,
        seed: int = 0,
        say: Callable[[str], None] = lambda sentence: warnings.warn(sentence, stacklevel=3),
    ) -> None:
        self.settings, self.data, self.folder, self.seed = settings, data, folder, seed
        self._say = say
        s = settings
        with seeded(seed):
            model = build_network(s, data.train)
        self.learner = build_learner(s, model, seed)
        self.optimizer = build_optimizer(s, self.learner)
        self.episodes = Episodes(
            data.train, ways=s.ways, shots=s.train_shots or s.shots, queries=s.queries, tasks=s.tasks,
            seed=seed,
        )  # fmt: skip
        self.validation_tasks = fixed_tasks(s, data.validation, s.validation_tasks, VALIDATION_SEED)
        self.progress = RunProgress(0, s.iterations, 0.0, s.minutes)
        self._validation_seconds = 0.0  # of the last one
        self.history: list[tuple[int, float, float, float]] = []  # iteration, accuracy, interval, s
        self.best: list[tuple[float, int]] = []  # accuracy and iteration, best first
        self.sums: dict[int, int] = {}  # checksums of their weights, by iteration
        self.finished = False
        self.checkpoints = Checkpoints(folder / CHECKPOINTS)
        self._failures = 0
        self._processor = -time.process_time()  # plus the process's own: spent by this run so far
        self._saved = time.monotonic()
        self._log: Log | None = None
        self._loaded: tuple[str, ...] = ()  # checkpoints present when the state was read
        self._log_size = 0
        self._resume()

    def train(
        self,
        show: Callable[[RunProgress], None] = lambda progress: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Train to the end, or until `stop()`; False if stopped, with everything saved.

        show: is called after every iteration. Global random state is left as it was.
        """
        with locked(self.folder):
            if self._loaded != self._present():  # another process has worked here since
                self._resume()
            self.settings.save(self.folder / SETTINGS)
            if not (self.folder / ABOUT).exists():
                write_json(self.folder / ABOUT, about())
            if not self.best and self.history and self.history[-1][0] == self.progress.iteration:
                self._keep_best()  # they were lost
            cut_to_size(self.folder / LOG, self._log_size)
            self._log = Log(self.folder / LOG, append=True)
            try:
                with seeded(self.seed):
                    return self._train(show, stop)
            finally:
                self._log_size = self._log.size()
                self._log.close()
                self._log = None

    def _train(self, show: Callable[[RunProgress], None], stop: Callable[[], bool]) -> bool:
        progress = self.progress
        while not self.finished:
            due = progress.iteration % self.settings.validate_every == 0 or progress.share >= 1
            if due and (not self.history or self.history[-1][0] != progress.iteration):
                began = time.perf_counter()
                self._validate(self._counter(show, "validating", self.settings.validation_tasks))
                self._validation_seconds = time.perf_counter() - began
                progress.doing = "training"
            if progress.share >= 1:
                self.finished = True
                self._save(show)
                break
            self._step()
            progress.evaluation_left = self._evaluation_left()
            show(progress)
            if stop():
                self._save(show)
                return False
            if time.monotonic() - self._saved > SAVE_EVERY:
                self._save(show)
        return True

    def _save(self, show: Callable[[RunProgress], None]) -> None:
        self.progress.doing = "saving"
        show(self.progress)
        self.save()
        self.progress.doing = "training"

    def _counter(
        self, show: Callable[[RunProgress], None], what: str, total: int
    ) -> Callable[[int], None]:
        """Shows what is being done, and how much of it; called with the number of tasks done."""

        def count(done: int) -> None:
            self.progress.doing = f"{what}, {done / total:.0%}"
            show(self.progress)

        count(0)
        return count

    def _evaluation_left(self) -> float:
        """Seconds of the validations and the test to come, by the last validation."""
        s, now = self.settings, self.progress
        left = [s.iterations - now.iteration] if s.iterations else []
        if s.minutes and now.pace > 0:
            left.append(int((60 * s.minutes - now.seconds) / now.pace))
        validations = math.ceil(max(min(left, default=0), 0) / s.validate_every)
        return self._validation_seconds * (validations + s.test_tasks / s.validation_tasks)

    def test(self, show: Callable[[RunProgress], None] = lambda progress: None) -> FewShotResults:
        """Test the best by validation, the curve by inner step, and the ensemble of the best.

        The learner ends up with the weights of the best checkpoint.
        """
        s = self.settings
        tasks = fixed_tasks(s, self.data.test, s.test_tasks, TEST_SEED)
        few = fixed_tasks(s, self.data.test, min(s.curve_tasks, s.test_tasks), TEST_SEED)
        options: dict[str, Any] = {"steps": s.evaluation_steps, "transductive": s.transductive}
        states = [read_best(self.folder, i, self.sums.get(i)) for _, i in self.best]
        self.learner.load_state_dict(states[0])
        counter = self._counter(show, "testing", s.test_tasks)
        single = evaluate(self.learner, tasks, by_step=False, progress=counter, **options)
        steps = self.learner.inner_steps if s.evaluation_steps is None else s.evaluation_steps
        counter = self._counter(show, "testing by inner step", few.count)
        options_of_curve = options | {"steps": max(steps, CURVE), "progress": counter}
        curve = evaluate(self.learner, few, **options_of_curve)
        ensemble = None
        if len(states) > 1:
            counter = self._counter(show, "testing the ensemble", s.test_tasks * len(states))
            ensemble = evaluate_ensemble(self.learner, states, tasks, progress=counter, **options)
        results = FewShotResults(
            single=single,
            curve=curve,
            ensemble=ensemble,
            method=s.label,
            seed=self.seed,
            iterations=self.progress.iteration,
            training_seconds=self.progress.seconds,
            best_iteration=self.best[0][1],
        )
        with locked(self.folder):
            results.write(self.folder)
        return results

    def save(self) -> None:
        """Write a checkpoint; the one before stays, with the best weights that it refers to."""
        progress = self.progress
        size = self._log_size if self._log is None else self._log.size()
        state = {
            "learner": self.learner.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "episodes": self.episodes.state_dict(),
            "random": torch.get_rng_state(),
            "iteration": progress.iteration,
            "seconds": progress.seconds,
            "means": [progress.loss, progress.accuracy, progress.pace],
            "history": self.history,
            "best": self.best,
            "best_sums": {i: self.sums[i] for _, i in self.best if i in self.sums},
            "seed": self.seed,
            "processor_seconds": self._processor + time.process_time(),
            "finished": self.finished,
            "log_bytes": size,
        }
        path = self.checkpoints.save(progress.iteration, state)
        self._best_of[path.name] = [iteration for _, iteration in self.best]
        self._loaded, self._log_size = self._present(), size
        needed = {f"best-{i}.pt" for name in self._loaded for i in self._best_of.get(name, ())}
        for unneeded in {best.name for best in self.folder.glob("best-*.pt")} - needed:
            (self.folder / unneeded).unlink()
        (self.folder / OLD_CHECKPOINT).unlink(missing_ok=True)
        self._saved = time.monotonic()

    def _step(self) -> None:
        clock = time.process_time if self.settings.clock == "processor" else time.perf_counter
        progress, start = self.progress, clock()
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(self.settings, progress.share)
        report = self.learner.backward(next(self.episodes))
        if self.settings.clip is not None:
            torch.nn.utils.clip_grad_value_(self.learner.parameters(), self.settings.clip)
        if report.finite:
            self._failures = 0
            self.optimizer.step()
            self.learner.after_step()
        else:
            self._failures += 1
        self.optimizer.zero_grad()
        progress.iteration += 1
        spent = clock() - start
        progress.seconds += spent
        now = {"loss": report.query_loss, "accuracy": 100 * report.query_accuracy}
        shared: dict[str, Any] = {}
        if report.sigma_m:
            progress.sigma_m, progress.sigma_lambda = report.sigma_m, report.sigma_lambda
            shared = {"sigma_m": report.sigma_m, "sigma_lambda": report.sigma_lambda}
        self._write(iteration=progress.iteration, **now, seconds=round(progress.seconds, 4), **shared)
        for name, value in (now | {"pace": spent}).items():
            old = getattr(progress, name)
            setattr(progress, name, value if old != old else 0.95 * old + 0.05 * value)
        if self._failures >= MOST_FAILURES:
            raise FloatingPointError(
                f"Training has had no finite gradient for {MOST_FAILURES} iterations, up to number "
                f"{progress.iteration}: lower --inner-lr (now {self.settings.inner_lr:g}) or "
                f"--outer-lr (now {self.settings.outer_lr:g})."
            )

    def _validate(self, progress_of: Callable[[int], None]) -> None:
        s, progress = self.settings, self.progress
        found = evaluate(
            self.learner, self.validation_tasks, steps=s.evaluation_steps,
            transductive=s.transductive, by_step=False, progress=progress_of,
        )  # fmt: skip
        progress.validation = (found.value, found.interval)
        self.history.append((progress.iteration, found.value, found.interval, progress.seconds))
        self._write(
            iteration=progress.iteration, validation=found.value, interval=found.interval,
            transductive=s.transductive,
        )  # fmt: skip
        self._keep_best()
        self.save()

    def _keep_best(self) -> None:
        """Keep the weights that the last validation was of, if they are among the best."""
        iteration, value, *_ = self.history[-1]
        entry = (value, iteration)
        ranked = sorted([*self.best, entry], key=lambda pair: (-pair[0], pair[1]))
        self.best = ranked[: self.settings.keep]
        if entry in self.best:
            path = self.folder / f"best-{iteration}.pt"
            write_tensors(path, self.learner.state_dict())
            self.sums[iteration] = checksum(path)
        self.progress.best = self.best[0][0]

    def _resume(self) -> None:
        """Load the newest checkpoint that can be read, if there are any."""
        self._loaded = self._present()
        self._best_of: dict[str, list[int]] = {}  # iterations that each checkpoint refers to
        states = read_states(self.folder, self._say)
        if not states:
            return
        self._check_settings()
        for name, state in states.items():
            self._best_of[name] = [int(iteration) for _, iteration in state["best"]]
        name = self._newest_with_best(states)
        state = states[name]
        if state["seed"] != self.seed:
            raise ValueError(f"The run in {self.folder} has seed {state['seed']}, not {self.seed}.")
        with fitting(self.checkpoints.folder / name):
            self.learner.load_state_dict(state["learner"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.episodes.load_state_dict(state["episodes"])
        progress = self.progress
        progress.iteration, progress.seconds = state["iteration"], state["seconds"]
        progress.loss, progress.accuracy, progress.pace = state["means"]
        self.history = [tuple(entry) for entry in state["history"]]
        self.sums = dict(state.get("best_sums", {}))
        lost = set(lost_best(self.folder, state))
        self.best = [tuple(entry) for entry in state["best"] if entry[1] not in lost]
        if self.history:
            progress.validation = self.history[-1][1:3]
            progress.best = self.best[0][0] if self.best else None
        self.finished = state["finished"] and progress.share >= 1
        self._processor = state.get("processor_seconds", math.nan) - time.process_time()
        self._log_size = state["log_bytes"]

    def _newest_with_best(self, states: Mapping[str, dict[str, Any]]) -> str:
        """The newest whose best weights are whole; the newest of all if there is none, and says so."""
        for name, state in states.items():
            lost = lost_best(self.folder, state)
            if not lost:
                return name
            first = next(iter(lost.values()))
            self._say(f"The checkpoint {name} is skipped: its best weights cannot be read: {first}")
        newest = next(iter(states))
        gone = ", ".join(map(str, lost_best(self.folder, states[newest])))
        self._say(
            f"No other is whole: the run goes on from {newest} without its best weights of iteration "
            f"{gone}; from there on the best are chosen anew."
        )
        return newest

    def _check_settings(self) -> None:
        before = FewShotSettings.read(self.folder / SETTINGS)
        for name, new in self.settings:
            old = getattr(before, name)
            if old != new and name not in LIMITS:
                raise ValueError(
                    f"The run in {self.folder} has {name}={old!r}, not {new!r}: resume it with the "
                    "same settings, or start another in a new folder."
                )

    def _present(self) -> tuple[str, ...]:
        return tuple(path.name for path in self.checkpoints.all())

    def _write(self, **record: Any) -> None:
        if self._log is not None:
            self._log.write(**record)


def fixed_tasks(s: FewShotSettings, classes: ImageClasses, count: int, seed: int) -> FixedTasks:
    """Tasks to validate or test on: for one seed the same in every run on these classes."""
    return FixedTasks(
        classes, ways=s.ways, shots=s.shots, queries=s.test_queries, count=count, seed=seed
    )


def read_states(folder: Path, say: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    """The states of a run's checkpoints that can be read, the newest first, by name.

    Empty if there are no checkpoints; refused if there are, and none can be read.
    """
    states, damaged = {}, []
    for path, state in Checkpoints(folder / CHECKPOINTS).latest():
        if isinstance(state, dict):
            states[path.name] = state
        else:
            damaged.append(f"The checkpoint {path.name} is skipped: {state}")
    old = folder / OLD_CHECKPOINT
    if not states and old.exists():
        try:
            states[old.name] = read_tensors(old)
        except Exception as error:
            damaged.append(f"{old} cannot be read: {error}")
    if damaged and not states:
        raise RunFolderError(
            f"No checkpoint of the run in {folder} can be read: start again in a new folder. "
            f"{damaged[0]}"
        )
    for sentence in damaged:
        say(sentence)
    return states


def lost_best(folder: Path, state: Mapping[str, Any]) -> dict[int, CheckpointError]:
    """Of the best weights that a checkpoint refers to: those that are damaged or gone, and why."""
    found, sums = {}, state.get("best_sums", {})
    for iteration in (int(iteration) for _, iteration in state["best"]):
        try:
            _check_best(folder / f"best-{iteration}.pt", sums.get(iteration))
        except CheckpointError as error:
            found[iteration] = error
    return found


def _check_best(path: Path, sum: int | None) -> None:
    """sum: None in checkpoints of earlier versions, which kept none."""
    try:
        if sum is not None and checksum(path) != sum:
            raise CheckpointError(f"{path} is damaged (its checksum differs).")
        if sum is None:
            read_tensors(path)
    except CheckpointError:
        raise
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is gone.") from error
    except Exception as error:
        why = " ".join(str(error).split())[:200].rstrip(".")
        raise CheckpointError(f"{path} cannot be read ({why}).") from error


def read_best(folder: Path, iteration: int, sum: int | None) -> dict[str, Any]:
    """The learner's state at one of the best validations. sum: its checksum, if it was kept."""
    path = folder / f"best-{iteration}.pt"
    try:
        _check_best(path, sum)
        state: dict[str, Any] = read_tensors(path)
    except CheckpointError as error:
        raise RunFolderError(
            f"The best weights cannot be used: {str(error).rstrip('.')}: go on with "
            f"gradaccord fewshot train --resume {folder.parent}."
        ) from error
    return state


def validation_curve(folder: Path) -> list[tuple[int, float, float]]:
    """(iteration, accuracy, interval) of a run's validations."""
    return [
        (r["iteration"], r["validation"], r["interval"])
        for r in read_log(folder / LOG)
        if "validation" in r
    ]
