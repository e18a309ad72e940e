"""One few-shot run: train, validate, keep the best, test; a kill at any moment is resumed bit-equal.

    run = Run(settings_for("maml"), load("glyphs"), Path("runs/mine/seed-0"), seed=0)
    run.train()
    print(run.test()["single"])

In the run's folder: `settings.json`, `log.jsonl` (a line for each iteration and validation),
`checkpoint.pt` (everything needed to go on), `best-<iteration>.pt` (the best by validation accuracy)
and `results.json`. Every file but the log is replaced in one piece; the log is cut back to the
checkpoint.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gradaccord.core.replay import seeded
from gradaccord.data.class_splits import ClassSplits
from gradaccord.data.image_classes import ImageClasses
from gradaccord.meta.construction import build_learner, build_network, build_optimizer, rate_at
from gradaccord.meta.episodes import Episodes, FixedTasks
from gradaccord.meta.evaluation import Evaluation, evaluate, evaluate_ensemble
from gradaccord.meta.settings import MAY_CHANGE, Settings

VALIDATION_SEED, TEST_SEED = 1, 2  # of the fixed tasks: the same for every run and method
FLUSH_EVERY = 5.0  # seconds between two additions to the log
SAVE_EVERY = 60.0  # seconds between two checkpoints
CURVE = 10  # inner steps that the adaptation curve shows at least
MOST_FAILURES = 20  # iterations in a row without a finite gradient


@dataclass
class Standing:
    """How far a run is, for whoever shows it."""

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
    doing: str = "training"

    @property
    def share(self) -> float:
        """How much of the run is over, 0 to 1, by iterations or by time, whichever ends it first."""
        by_step = self.iteration / self.iterations if self.iterations else 0.0
        by_time = self.seconds / (60 * self.minutes) if self.minutes else 0.0
        return min(1.0, max(by_step, by_time))

    @property
    def seconds_left(self) -> float:
        """Expected, of training."""
        left = [(self.iterations - self.iteration) * self.pace] if self.iterations else []
        if self.minutes:
            left.append(60 * self.minutes - self.seconds)
        return max(0.0, min(left))


class Run:
    """A run in its folder; an unfinished one there is gone on with (same settings, other limits).

    With `minutes` the outer rate of a schedule follows the clock, and so does the end of the run:
    such a run is resumed where it stopped, but no two are bit-equal.
    """

    def __init__(self, settings: Settings, data: ClassSplits, folder: Path, seed: int = 0) -> None:
        self.settings, self.data, self.folder, self.seed = settings, data, folder, seed
        s = settings
        with seeded(seed):
            model = build_network(s, data.train)
        self.learner = build_learner(s, model, seed)
        self.optimizer = build_optimizer(s, self.learner)
        self.episodes = Episodes(
            data.train,
            ways=s.ways,
            shots=s.train_shots or s.shots,
            queries=s.queries,
            tasks=s.tasks,
            seed=seed,
        )
        self.validation_tasks = self._fixed(data.validation, s.validation_tasks, VALIDATION_SEED)
        self.standing = Standing(0, s.iterations, 0.0, s.minutes)
        self.history: list[
            tuple[int, float, float, float]
        ] = []  # iteration, accuracy, interval, seconds
        self.best: list[tuple[float, int]] = []  # accuracy and iteration, best first
        self.finished = False
        self._failures = 0
        self._unwritten: list[str] = []  # lines of the log
        self._flushed = self._saved = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        if self.checkpoint_path.exists():
            self._resume()
        else:
            settings.save(folder / "settings.json")
            self.log_path.write_text("")

    @property
    def checkpoint_path(self) -> Path:
        """Where everything is that a resumed run needs."""
        return self.folder / "checkpoint.pt"

    @property
    def log_path(self) -> Path:
        """One JSON object a line."""
        return self.folder / "log.jsonl"

    def train(
        self,
        show: Callable[[Standing], None] = lambda standing: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Train to the end, or until `stop()`; False if stopped, with everything saved.

        show: is called after every iteration. Global random state is left as it was.
        """
        s, standing = self.settings, self.standing
        with seeded(self.seed):
            while not self.finished:
                due = standing.iteration % s.validate_every == 0 or standing.share >= 1
                if due and (not self.history or self.history[-1][0] != standing.iteration):
                    standing.doing = "validating"
                    show(standing)
                    self._validate()
                    standing.doing = "training"
                if standing.share >= 1:
                    self.finished = True
                    self.save()
                    break
                self._step()
                show(standing)
                if stop():
                    self.save()
                    return False
                if time.monotonic() - self._saved > SAVE_EVERY:
                    self.save()
        return True

    def test(self, show: Callable[[Standing], None] = lambda standing: None) -> dict[str, Evaluation]:
        """Test the best by validation ("single"), the ensemble of the best, and the curve by step.

        The learner ends up with the weights of the best checkpoint.
        """
        s = self.settings
        tasks = self._fixed(self.data.test, s.test_tasks, TEST_SEED)
        few = self._fixed(self.data.test, min(s.curve_tasks, s.test_tasks), TEST_SEED)
        options: dict[str, Any] = {"steps": s.evaluation_steps, "transductive": s.transductive}
        self.standing.doing = "testing"
        show(self.standing)
        states = [self._read(f"best-{iteration}.pt") for _, iteration in self.best]
        self.learner.load_state_dict(states[0])
        results = {"single": evaluate(self.learner, tasks, by_step=False, **options)}
        further = max(
            self.learner.inner_steps if s.evaluation_steps is None else s.evaluation_steps, CURVE
        )
        results["curve"] = evaluate(self.learner, few, **(options | {"steps": further}))
        if len(states) > 1:
            show(self.standing)
            results["ensemble"] = evaluate_ensemble(self.learner, states, tasks, **options)
        summary: dict[str, Any] = {name: result.to_dict() for name, result in results.items()}
        summary |= {
            "method": s.label,
            "seed": self.seed,
            "iterations": self.standing.iteration,
            "training_seconds": self.standing.seconds,
            "best_iteration": self.best[0][1],
        }
        _replace(self.folder / "results.json", (json.dumps(summary, indent=2) + "\n").encode())
        return results

    def save(self) -> None:
        """Write the checkpoint in one piece."""
        self._flush()
        state = {
            "learner": self.learner.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "episodes": self.episodes.state_dict(),
            "random": torch.get_rng_state(),
            "iteration": self.standing.iteration,
            "seconds": self.standing.seconds,
            "means": [self.standing.loss, self.standing.accuracy, self.standing.pace],
            "history": self.history,
            "best": self.best,
            "seed": self.seed,
            "finished": self.finished,
            "log_bytes": self.log_path.stat().st_size,
        }
        _save(self.checkpoint_path, state)
        kept = {f"best-{iteration}.pt" for _, iteration in self.best}
        for path in self.folder.glob("best-*.pt"):
            if path.name not in kept:
                path.unlink()
        self._saved = time.monotonic()

    def _step(self) -> None:
        clock = time.process_time if self.settings.clock == "processor" else time.perf_counter
        standing, start = self.standing, clock()
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(self.settings, standing.share)
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
        standing.iteration += 1
        spent = clock() - start
        standing.seconds += spent
        record: dict[str, Any] = {
            "iteration": standing.iteration,
            "loss": report.query_loss,
            "accuracy": 100 * report.query_accuracy,
            "seconds": round(standing.seconds, 4),
        }
        if report.sigma_m:
            standing.sigma_m, standing.sigma_lambda = report.sigma_m, report.sigma_lambda
            record |= {"sigma_m": report.sigma_m, "sigma_lambda": report.sigma_lambda}
        self._write(record)
        for name, value in (
            ("loss", record["loss"]),
            ("accuracy", record["accuracy"]),
            ("pace", spent),
        ):
            old = getattr(standing, name)
            setattr(standing, name, value if old != old else 0.95 * old + 0.05 * value)
        if self._failures >= MOST_FAILURES:
            raise FloatingPointError(
                f"Training has had no finite gradient for {MOST_FAILURES} iterations, up to number "
                f"{standing.iteration}: lower --inner-lr (now {self.settings.inner_lr:g}) or "
                f"--outer-lr (now {self.settings.outer_lr:g})."
            )

    def _validate(self) -> None:
        s, standing = self.settings, self.standing
        found = evaluate(
            self.learner,
            self.validation_tasks,
            steps=s.evaluation_steps,
            transductive=s.transductive,
            by_step=False,
        )
        standing.validation = (found.value, found.interval)
        self.history.append((standing.iteration, found.value, found.interval, standing.seconds))
        self._write(
            {
                "iteration": standing.iteration,
                "validation": found.value,
                "interval": found.interval,
                "transductive": s.transductive,
            }
        )
        entry = (found.value, standing.iteration)
        ranked = sorted([*self.best, entry], key=lambda pair: (-pair[0], pair[1]))[: s.keep]
        if entry in ranked:
            _save(self.folder / f"best-{standing.iteration}.pt", self.learner.state_dict())
        self.best = ranked
        standing.best = ranked[0][0]
        self.save()

    def _resume(self) -> None:
        before = Settings.read(self.folder / "settings.json")
        for name in before.__dataclass_fields__:
            old, new = getattr(before, name), getattr(self.settings, name)
            if old != new and name not in MAY_CHANGE:
                raise ValueError(
                    f"The run in {self.folder} has {name}={old!r}, not {new!r}: go on with the same "
                    "settings, or start another in a new folder."
                )
        state = self._read(self.checkpoint_path.name)
        if state["seed"] != self.seed:
            raise ValueError(f"The run in {self.folder} has seed {state['seed']}, not {self.seed}.")
        self.settings.save(self.folder / "settings.json")
        self.learner.load_state_dict(state["learner"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.episodes.load_state_dict(state["episodes"])
        standing = self.standing
        standing.iteration, standing.seconds = state["iteration"], state["seconds"]
        standing.loss, standing.accuracy, standing.pace = state["means"]
        self.history = [tuple(entry) for entry in state["history"]]
        self.best = [tuple(entry) for entry in state["best"]]
        if self.history:
            standing.validation, standing.best = self.history[-1][1:3], self.best[0][0]
        self.finished = state["finished"] and standing.share >= 1
        with self.log_path.open("ab") as log:
            log.truncate(state["log_bytes"])

    def _fixed(self, classes: ImageClasses, count: int, seed: int) -> FixedTasks:
        s = self.settings
        return FixedTasks(
            classes, ways=s.ways, shots=s.shots, queries=s.test_queries, count=count, seed=seed
        )

    def _read(self, name: str) -> Any:
        return torch.load(self.folder / name, weights_only=True)

    def _write(self, record: dict[str, Any]) -> None:
        self._unwritten.append(json.dumps(record) + "\n")
        if time.monotonic() - self._flushed > FLUSH_EVERY:
            self._flush()

    def _flush(self) -> None:
        with self.log_path.open("a", encoding="utf-8") as log:
            log.writelines(self._unwritten)
        self._unwritten.clear()
        self._flushed = time.monotonic()


def _save(path: Path, state: Any) -> None:
    part = path.with_name(path.name + ".part")
    torch.save(state, part)
    os.replace(part, path)


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The records of a run, in order; a last line that is not whole yet is left out."""
    records = []
    for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines():
        with suppress(json.JSONDecodeError):
            records.append(json.loads(line))
    return records


def validation_curve(folder: Path) -> list[tuple[int, float, float]]:
    """(iteration, accuracy, interval) of a run's validations."""
    return [
        (r["iteration"], r["validation"], r["interval"]) for r in read_log(folder) if "validation" in r
    ]
