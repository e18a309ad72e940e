"""One few-shot run: train, validate, keep the best, test; killed at any moment, it resumes bit-equal.

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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from gradaccord.core.replay import seeded
from gradaccord.data.images.class_parts import ClassSplits
from gradaccord.meta.build import (
    VALIDATION_SEED,
    build_learner,
    build_network,
    build_optimizer,
    fixed_tasks,
)
from gradaccord.meta.episodes.image_tasks import Episodes
from gradaccord.meta.evaluation import evaluate
from gradaccord.meta.final_test import final_test
from gradaccord.meta.progress import RunProgress
from gradaccord.meta.results import FewShotResults
from gradaccord.meta.saved_states import (
    OLD_CHECKPOINT,
    lost_best,
    newest_with_best,
    read_best,
    read_states,
)
from gradaccord.meta.settings import LIMITS, FewShotSettings
from gradaccord.runs.about import About, about
from gradaccord.runs.checkpoints import CHECKPOINTS, Checkpoints, checksum, fitting
from gradaccord.runs.files import LOG, write_tensors
from gradaccord.runs.interrupts import Interrupts
from gradaccord.runs.lock import locked
from gradaccord.runs.log import Log, cut_to_size, read_log
from gradaccord.runs.schedule import Schedule

LEAST_RATE = 0.01  # of the outer rate, at the end of a cosine
SAVE_EVERY = 60.0  # seconds between two checkpoints
MOST_FAILURES = 20  # iterations in a row without a finite gradient


class Run:
    """A run in its folder. An unfinished one there is resumed: same settings, but limits may differ.

    With `minutes`, the schedule of the outer rate and the end of the run follow the clock: such a run
    is resumed where it stopped, but no two are bit-equal.

    say: called with a sentence for each damaged checkpoint that is skipped, and with what follows when
        Ctrl-C comes; by default the first is a warning.
    """

    def __init__(
        self,
        settings: FewShotSettings,
        data: ClassSplits,
        folder: Path,
        seed: int = 0,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.settings, self.data, self.folder, self.seed = settings, data, folder, seed
        self._tell = say
        self._say = say or (lambda sentence: warnings.warn(sentence, stacklevel=3))
        s = settings
        with seeded(seed):
            model = build_network(s, data.train)
        self.learner = build_learner(s, model, seed)
        self.optimizer = build_optimizer(s, self.learner)
        self.schedule = Schedule(self.optimizer, s.schedule, warmup=0.0, floor=LEAST_RATE)
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
        """Train to the end, or until `stop()`, Ctrl-C or SIGTERM; False if stopped, everything saved.

        show: called after every iteration. The global random state is left as it was.
        """
        with locked(self.folder), Interrupts(self._tell, self._doing) as interrupts:
            self.checkpoints.tidy()
            if self._loaded != self._present():  # another process has worked here since
                self._resume()
            if self._newest:  # else the ones before it may still be needed
                self._remove_unneeded()
            self.settings.save(self.folder)
            if not About.exists(self.folder):
                about().write(self.folder)
            if not self.best and self.history and self.history[-1][0] == self.progress.iteration:
                self._keep_best()  # they were lost
            cut_to_size(self.folder / LOG, self._log_size)
            self._log = Log(self.folder / LOG, append=True)
            try:
                with seeded(self.seed):
                    return self._train(show, stop, interrupts)
            finally:
                self._log_size = self._log.size()
                self._log.close()
                self._log = None

    def _train(
        self, show: Callable[[RunProgress], None], stop: Callable[[], bool], interrupts: Interrupts
    ) -> bool:
        progress = self.progress
        while not self.finished:
            due = progress.iteration % self.settings.validate_every == 0 or progress.share >= 1
            if due and (not self.history or self.history[-1][0] != progress.iteration):
                began = time.perf_counter()
                self._validate(
                    self.progress.counter(show, "validating", self.settings.validation_tasks)
                )
                self._validation_seconds = time.perf_counter() - began
                progress.doing = "training"
            if progress.share >= 1:
                self.finished = True
                self._save(show)
                break
            self._step()
            progress.evaluation_left = self._evaluation_left()
            show(progress)
            if stop() or interrupts.stops:
                interrupts.saving = True
                self._save(show)
                return False
            if time.monotonic() - self._saved > SAVE_EVERY:
                self._save(show)
        return not interrupts.stops

    @property
    def processor_seconds(self) -> float:
        """Processor time of this run so far, in all processes that it took; NaN if one kept none."""
        return self._processor + time.process_time()

    def _doing(self) -> str:
        return f"this {'validation' if self.progress.doing.startswith('validating') else 'iteration'}"

    def _save(self, show: Callable[[RunProgress], None]) -> None:
        self.progress.doing = "saving"
        show(self.progress)
        self.save()
        self.progress.doing = "training"

    def _evaluation_left(self) -> float:
        """Seconds of the validations and the test to come, by the last validation."""
        s, now = self.settings, self.progress
        left = [s.iterations - now.iteration] if s.iterations else []
        if s.minutes and now.pace > 0:
            left.append(int((60 * s.minutes - now.seconds) / now.pace))
        validations = math.ceil(max(min(left, default=0), 0) / s.validate_every)
        return self._validation_seconds * (validations + s.test_tasks / s.validation_tasks)

    def test(self, show: Callable[[RunProgress], None] = lambda progress: None) -> FewShotResults:
        """Test the best checkpoint by validation, the same by inner step, and the ensemble of the best.

        Afterwards the learner has the weights of the best checkpoint.
        """
        s, best = self.settings, [iteration for _, iteration in self.best]
        states = [read_best(self.folder, i, self.sums.get(i)) for i in best]
        single, curve, ensemble = final_test(
            s, self.learner, states, self.data.test, lambda *what: self.progress.counter(show, *what)
        )
        results = FewShotResults(
            single=single,
            curve=curve,
            ensemble=ensemble,
            method=s.label,
            seed=self.seed,
            iterations=self.progress.iteration,
            training_seconds=self.progress.seconds,
            best_iteration=best[0],
        )
        with locked(self.folder):
            results.write(self.folder)
        return results

    def save(self) -> None:
        """Write a checkpoint; the previous one stays, with the best weights that it refers to."""
        progress = self.progress
        size = self._log_size if self._log is None else self._log.size()
        state = {
            "learner": self.learner.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "episodes": self.episodes.state_dict(),
            "iteration": progress.iteration,
            "seconds": progress.seconds,
            "means": [progress.loss, progress.accuracy, progress.pace],
            "history": self.history,
            "best": self.best,
            "best_sums": {i: self.sums[i] for _, i in self.best if i in self.sums},
            "seed": self.seed,
            "processor_seconds": self.processor_seconds,
            "finished": self.finished,
            "log_bytes": size,
        }
        path = self.checkpoints.save(progress.iteration, state)
        self._best_of[path.name] = [iteration for _, iteration in self.best]
        self._log_size = size
        self._remove_unneeded()
        self._saved = time.monotonic()

    def _remove_unneeded(self) -> None:
        """Older checkpoints, and best weights to which none refers."""
        self.checkpoints.prune()
        self._loaded = self._present()
        needed = {f"best-{i}.pt" for name in self._loaded for i in self._best_of.get(name, ())}
        for unneeded in {best.name for best in self.folder.glob("best-*.pt")} - needed:
            (self.folder / unneeded).unlink()
        (self.folder / OLD_CHECKPOINT).unlink(missing_ok=True)

    def _step(self) -> None:
        clock = time.process_time if self.settings.clock == "processor" else time.perf_counter
        progress, start = self.progress, clock()
        self.schedule.set(progress.share, 0.0)
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
        self._newest = False  # whether the state is that of the newest checkpoint
        self._best_of: dict[str, list[int]] = {}  # iterations that each checkpoint refers to
        states = read_states(self.folder, self._say)
        if not states:
            return
        self._check_settings()
        for name, state in states.items():
            self._best_of[name] = [int(iteration) for _, iteration in state["best"]]
        name = newest_with_best(self.folder, states, self._say)
        self._newest = self._loaded[-1:] == (name,)
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

    def _check_settings(self) -> None:
        before = FewShotSettings.read(self.folder)
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


def validation_curve(folder: Path) -> list[tuple[int, float, float]]:
    """(iteration, accuracy, interval) of a run's validations."""
    return [
        (r["iteration"], r["validation"], r["interval"])
        for r in read_log(folder / LOG)
        if "validation" in r
    ]
