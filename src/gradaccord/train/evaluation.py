"""How good a run is: every task's scores, what the probes measure, and the best weights so far."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from gradaccord.core.sharding import reshard
from gradaccord.core.watch import NOBODY, Watch
from gradaccord.models.multitask import with_head_keys
from gradaccord.runs.checkpoints import CHECKPOINTS, CheckpointError, Checkpoints, check, load
from gradaccord.runs.exceptions import TrainingError
from gradaccord.runs.results import EvaluationRecord
from gradaccord.runs.usage import compute_seconds
from gradaccord.tasks.task import main_score
from gradaccord.train.config import Config
from gradaccord.train.probes import Probes
from gradaccord.train.problem import Problem
from gradaccord.train.task_patience import TaskPatience
from gradaccord.train.wrapped_model import load_weights, weights_of


class _Counted:
    """Called with the rows that were just done, reports how many are done in all."""

    def __init__(self, watch: Watch, what: str, total: int) -> None:
        self.watch, self.what, self.total = watch, what, total
        self.done = 0
        self(0)

    def __call__(self, rows: int) -> None:
        self.done += rows
        self.watch.at(self.what, self.done, self.total)


class Evaluator:
    """Evaluates a model in training on dev, and keeps its weights whenever they are the best."""

    def __init__(
        self,
        config: Config,
        problem: Problem,
        model: nn.Module,
        probes: Probes,
        folder: Path,
        accelerator: Any,
        watch: Watch = NOBODY,
    ) -> None:
        self.config = config
        self.problem = problem
        self.model = model
        self.probes = probes
        self.kept = Checkpoints(folder / "best", keep=1, serves=Checkpoints(folder / CHECKPOINTS))
        self.accelerator = accelerator
        self.watch = watch
        self.best = -math.inf
        self.best_step = 0
        self.without_better = 0  # evaluations since
        self.patience = TaskPatience(problem.patience)
        self.ended: dict[str, str] = {}  # tasks whose patience ended with the last evaluation, and why
        self.evaluations: list[EvaluationRecord] = []
        self.evaluation_seconds = 0.0  # of processors, over all sessions
        self.probe_seconds = 0.0

    def evaluate(
        self, step: int, *, gradients: float, seconds: float, train_loss: Mapping[str, float]
    ) -> EvaluationRecord:
        """Score every task on dev, measure the probes, keep the model if it is the best so far.

        Returns the record for the log, which also holds the other arguments.
        """
        began = time.perf_counter()
        scores = {task: found.scores for task, found in self.evaluated("dev").items()}
        start = compute_seconds(self.accelerator.device)
        probed = self.probes.measure(self.model, self.accelerator, self.watch)
        self.probe_seconds += compute_seconds(self.accelerator.device) - start
        main = {task: self.main_score(task, own) for task, own in scores.items()}
        self.ended = self.patience.note(step, main)
        average = self._average(scores)
        # Without a labelled dev split nothing can be compared, and the last weights are kept.
        if average > self.best or not self.evaluations or math.isnan(average):
            self.keep_best(step, average)
        else:
            self.without_better += 1
        record = EvaluationRecord(
            event="evaluation",
            step=step,
            gradients=round(gradients, 3),
            seconds=round(seconds, 3),
            evaluation_seconds=round(time.perf_counter() - began, 3),
            scores=scores,
            average=average,
            train_loss=dict(train_loss),
            **{name: getattr(probed, name) for name in probed.model_fields_set},
        )
        self.evaluations.append(record)
        return record

    def evaluated(self, split: str) -> dict[str, Any]:
        """Every task's evaluation on a split; splits without labels are left out."""
        from gradaccord.tasks.evaluation import evaluate

        began = compute_seconds(self.accelerator.device)
        found = {}
        for task in self.problem.evaluated(split):
            prepared = self.problem.prepared[task]
            if prepared.labelled(split):
                show = _Counted(self.watch, f"evaluating {task} {split}", len(prepared.encoded[split]))
                found[task] = evaluate(
                    self.model,
                    task,
                    prepared.task,
                    prepared.splits[split],
                    prepared.encoded[split],
                    batch_size=self.config.train.evaluation_batch_size,
                    progress=show,
                )
        reshard(self.model)
        self.evaluation_seconds += compute_seconds(self.accelerator.device) - began
        return found

    def main_score(self, task: str, scores: Mapping[str, float]) -> float:
        """A task's main metric among its scores."""
        return main_score(scores, self.problem.prepared[task].task.main_metric)

    def _average(self, scores: Mapping[str, Mapping[str, float]]) -> float:
        """Mean of the trained tasks' main metrics; NaN if none was evaluated."""
        values = [self.main_score(task, scores[task]) for task in self.problem.scored if task in scores]
        return statistics.fmean(values) if values else math.nan

    @property
    def stalled(self) -> bool:
        """Whether no evaluation was better for as long as `patience` allows."""
        patience = self.config.train.patience
        return patience is not None and self.without_better >= patience

    def keep_best(self, step: int, average: float = -math.inf) -> None:
        """Keep the current weights as the best so far."""
        self.watch.at("saving the best weights", 0, 0)
        self.best, self.best_step, self.without_better = average, step, 0
        model, _ = weights_of(self.accelerator, self.model, None)
        if self.accelerator.is_main_process:
            self.kept.save(step, {"model": model})
        self.accelerator.wait_for_everyone()

    def check_best(self, state: Mapping[str, Any]) -> None:
        """Raise if the best weights that a saved state refers to are damaged or missing."""
        if state["evaluations"]:
            try:
                check(self.kept.of(state["best_step"]))
            except CheckpointError as error:
                raise CheckpointError(
                    f"its best weights, of step {state['best_step']}, cannot be read: {error}"
                ) from error

    def load_best(self) -> None:
        """Put the best weights into the model."""
        try:
            state = load(self.kept.of(self.best_step))
        except CheckpointError as error:
            raise TrainingError(
                f"The best weights cannot be read: {error} Continue with --resume."
            ) from error
        state = with_head_keys(state, self.problem.model.head_of.values(), state["model"])
        load_weights(self.accelerator, self.model, None, state["model"], None)

    def state_dict(self) -> dict[str, Any]:
        """All but the best weights, which have their own file."""
        return {
            "best": self.best,
            "best_step": self.best_step,
            "without_better": self.without_better,
            "task_patience": self.patience.state_dict(),
            "evaluations": [record.to_json() for record in self.evaluations],
            "evaluation_seconds": self.evaluation_seconds,
            "probe_seconds": self.probe_seconds,
            "probes": self.probes.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.best = float(state["best"])
        self.best_step = int(state["best_step"])
        self.without_better = int(state["without_better"])
        if "task_patience" in state:
            self.patience.load_state_dict(state["task_patience"])
        self.evaluations = [EvaluationRecord(**record) for record in state["evaluations"]]
        self.evaluation_seconds = float(state.get("evaluation_seconds", 0.0))
        self.probe_seconds = float(state.get("probe_seconds", 0.0))
        self.probes.load_state_dict(state["probes"])
