"""The training loop: when to step, evaluate and save, and a clean end whatever stops it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gradaccord.core.report import StepReport
from gradaccord.core.sharding import is_sharded
from gradaccord.core.task_gradients import LossNotFiniteError
from gradaccord.core.watch import Watch
from gradaccord.data.encoded import Batch
from gradaccord.models.multitask import with_head_keys
from gradaccord.runs.checkpoints import (
    CHECKPOINTS,
    Checkpoints,
    add_weights_of_all,
    fitting,
    random_state,
    set_random_state,
)
from gradaccord.runs.exceptions import TrainingError
from gradaccord.runs.interrupts import Interrupts
from gradaccord.runs.log import Log, StepRecord
from gradaccord.runs.ranks import gathered
from gradaccord.runs.schedule import is_due
from gradaccord.runs.usage import compute_seconds
from gradaccord.train.config import Config
from gradaccord.train.evaluation import Evaluator
from gradaccord.train.not_finite import not_finite, tasks_not_finite
from gradaccord.train.phase import Phases
from gradaccord.train.probes import Probes
from gradaccord.train.problem import Problem
from gradaccord.train.progress import Progress, losses_of, mean_dot
from gradaccord.train.regularizers import Regularizers
from gradaccord.train.row_steps import clippable
from gradaccord.train.step_batches import StepBatch
from gradaccord.train.task_weights import unweighted, weighted
from gradaccord.train.time_left import TimeLeft
from gradaccord.train.wrapped_model import (
    enable_checkpointing,
    enable_compilation,
    enable_row_steps,
    load_weights,
    skeleton_of,
    weights_of,
    wrap,
)


class TrainingLoop:
    """One run of training in one folder.

    The model passes through Accelerate, so that one process, DDP and FSDP2 are the same code.
    """

    def __init__(
        self,
        config: Config,
        problem: Problem,
        folder: Path,
        accelerator: Any,
        *,
        show: Callable[[Progress], None] = lambda progress: None,
        say: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.config = config
        self.problem = problem
        self.accelerator = accelerator
        self.show, self.say = show, say
        self.trunk: Any = problem.model.trunk
        probes = Probes(config, problem)  # of the weights at the start
        self.regularizers = Regularizers(problem.model, config.regularize)
        enable_checkpointing(config, problem)
        enable_row_steps(config, problem, accelerator)
        self.skeleton = skeleton_of(accelerator, problem.model)
        self.model: nn.Module = wrap(accelerator, problem.model).train()  # trunks come in eval mode
        enable_compilation(config, problem, accelerator)
        self.trainable = self.regularizers.whole(self.model)
        self.checkpoints = Checkpoints(folder / CHECKPOINTS, config.train.keep)
        self.step = 0
        self.seconds = 0.0  # from the first step on, evaluation included, over all sessions
        self.training_seconds = 0.0  # of processors, of all steps
        self.phases = Phases(
            config,
            problem,
            trunk=self.trunk,
            trainable=self.trainable,
            accelerator=accelerator,
            cost=self.regularizers.cost,
        )
        self.begin(0)
        self.progress = Progress()
        watch = Watch(self._show_doing, say)
        self.evaluator = Evaluator(config, problem, self.model, probes, folder, accelerator, watch)
        self.time_left = TimeLeft(
            config.train.evaluate_every, problem.rows("dev"), problem.rows("test")
        )
        self.interrupted = False
        self.between_steps = True  # what is saved now continues bit for bit

    def begin(self, index: int) -> None:
        """Set up the phase of this index, from the current weights."""
        self.phase_index = index
        self.phase = self.phases.begin(index)

    # The loop

    def run(self, log: Log) -> None:
        """Train to the end, or until Ctrl-C, too long without a better score, or a loss of NaN."""
        with Interrupts(self.say, lambda: self.progress.doing) as interrupts:
            try:
                for _ in self.steps(log, interrupts):
                    pass
            except KeyboardInterrupt:
                self._interrupt(log, interrupts)
        log.flush()

    def steps(self, log: Log, interrupts: Interrupts) -> Iterator[int]:
        """The loop itself; yields the number of each step when all that is due after it is done."""
        began = time.perf_counter() - self.seconds
        self.time_left.begin(self.phase.share)
        while True:
            if self.phase.over:
                if self.phase_index + 1 == len(self.phases):
                    return
                self.begin(self.phase_index + 1)
                self.time_left.begin(0.0)
            start = time.perf_counter()
            rows = self.take_step(log)
            self.seconds = time.perf_counter() - began
            self.time_left.stepped(time.perf_counter() - start, self.phase.share, rows)
            self._show()
            # Where the phase is over the trajectory is ended before anything is measured.
            if self.phase.over:
                self._finish()
            if self._due(self.config.train.evaluate_every):
                self.evaluate(log)
                if self.evaluator.ended and not self.phase.over and not self._drop():
                    return
                if self.evaluator.stalled:
                    self._finish()
                    self.say(
                        f"Stopped early, after step {self.step}: no score was better than that at step "
                        f"{self.evaluator.best_step} for {self.config.train.patience} evaluations."
                    )
                    return
            if self._due(self.config.train.save_every):
                self.save(log)
            self.between_steps = True
            if interrupts.agreed(self.accelerator):
                self._interrupt(log, interrupts)
                return
            yield self.step

    def _drop(self) -> bool:
        """Train no more on the tasks whose patience has ended; whether any is left."""
        self._finish()
        for task, why in self.evaluator.ended.items():
            self.say(f"{task} is not trained on any more, after step {self.step}: {why}.")
        if set(self.problem.scored) <= set(self.evaluator.patience.stopped):
            self.say(f"Stopped early, after step {self.step}: no task is left to train on.")
            return False
        self.phase.drop([part for task in self.evaluator.ended for part in self.problem.parts[task]])
        return True

    def _interrupt(self, log: Log, interrupts: Interrupts) -> None:
        self.interrupted = interrupts.saving = True
        if self.between_steps:
            self.save(log)

    def take_step(self, log: Log) -> int:
        """One optimiser step; returns the number of rows that it saw."""
        self.between_steps = False
        phase = self.phase
        began = compute_seconds(self.accelerator.device)
        drawn = next(phase.step_batches)
        losses = {one.name: self.calls(one) for one in drawn}
        phase.schedule.set(phase.share, phase.step_cost / phase.budget.amount)
        try:
            report: StepReport = phase.method.backward(losses)
        except LossNotFiniteError as error:
            raise self._not_finite([error.task], drawn) from error
        wrong = tasks_not_finite(report, scaled=self.accelerator.scaler is not None)
        if wrong:
            raise self._not_finite(wrong, drawn)
        clip = self.config.train.clip
        if clip is not None:
            length = self.accelerator.clip_grad_norm_(clippable(self.trainable.parameters()), clip)
            length = length.full_tensor() if is_sharded(length) else length
            if self.accelerator.scaler is None and not bool(torch.isfinite(length)):
                raise self._not_finite([one.name for one in drawn], drawn)
        phase.optimizer.step()
        phase.method.after_step()
        self.regularizers.after_step()
        phase.optimizer.zero_grad()
        seconds = self._over_processes(compute_seconds(self.accelerator.device) - began)
        self.training_seconds += seconds
        phase.count(len(drawn), seconds)
        self.step += 1
        self._log_step(unweighted(report, phase.weights), drawn, log)
        return sum(len(one.rows) for one in drawn)

    def _over_processes(self, seconds: float) -> float:
        """The sum over processes where it ends the run, which they must do together."""
        if self.phase.budget.unit != "seconds" or self.accelerator.num_processes == 1:
            return seconds
        own = torch.tensor(seconds, device=self.accelerator.device)
        return float(self.accelerator.reduce(own, "sum"))

    def calls(self, drawn: StepBatch) -> list[Callable[[], Any]]:
        """The losses of a batch's micro-batches, as callables, on this process's rows."""
        prepared = self.problem.prepared[drawn.task]
        encoded = prepared.encoded["train"]
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        rows = drawn.rows[rank::world]
        parts = min(self.config.train.micro_batches, max(len(rows), 1))
        device = self.accelerator.device
        calls = []
        for i in range(parts):
            batch: Batch = {k: v.to(device) for k, v in encoded.batch(rows[i::parts]).items()}
            forward = partial(self.model, drawn.task, batch)
            loss = self.regularizers.loss(prepared.task, drawn.task, forward, batch)
            calls.append(weighted(loss, self.phase.weights[drawn.task]))
        return calls

    def _not_finite(self, tasks: list[str], drawn: list[StepBatch]) -> TrainingError:
        return not_finite(tasks, drawn, self.step + 1, self.problem, self.checkpoints.all())

    def _log_step(self, report: StepReport, drawn: list[StepBatch], log: Log) -> None:
        self.progress.note(report, drawn)
        record = StepRecord(
            step=self.step,
            phase=self.phase.name,
            share=round(self.phase.share, 6),
            gradients=round(self.phase.gradients, 3),
            seconds=round(self.seconds, 3),
            lr=self.phase.optimizer.param_groups[0]["lr"],
            loss=losses_of(report),
            extras={**report.extras, **self.regularizers.to_floats()} or None,
        )
        if len(report.tasks) > 1:
            record.cosine, record.conflicts = report.mean_cosine, report.conflicts
            record.dot = mean_dot(report)
        log.add(record)

    def _show(self) -> None:
        now = self.progress
        now.phase, now.step, now.share = self.phase.name, self.step, self.phase.share
        evaluated = self.phase_index + 1 == len(self.phases)
        now.seconds_left = self.time_left.seconds(self.step if evaluated else None)
        now.doing = ""
        self.show(now)

    def _show_doing(self, what: str, done: float, total: float) -> None:
        self.progress.doing, self.progress.done, self.progress.total = what, done, total
        self.show(self.progress)

    def _finish(self) -> None:
        """End a trajectory that is not over yet, and use a batch that still waits for a partner."""
        if self.phase.method.finish():
            self.phase.optimizer.step()
            self.phase.optimizer.zero_grad()

    def _due(self, every: int | float) -> bool:
        """Whether the last step passed a point at which something is due. every: steps, or a share."""
        if self.phase_index + 1 < len(self.phases):
            return False
        before = (self.phase.spent - self.phase.step_cost) / self.phase.budget.amount
        return self.phase.over or is_due(every, self.step, before, self.phase.share)

    def evaluate(self, log: Log) -> None:
        """Evaluate the model; inside a trajectory, at its outer weights."""
        began = time.perf_counter()
        with self.phase.method.outer_weights():
            record = self.evaluator.evaluate(
                self.step,
                gradients=self.phase.gradients,
                seconds=self.seconds,
                train_loss=self.progress.losses,
            )
        self.time_left.evaluated(time.perf_counter() - began)
        log.add(record)
        log.flush()
        self.progress.scores = {
            task: self.evaluator.main_score(task, own) for task, own in record.scores.items()
        }
        self.progress.best = self.evaluator.best

    # Checkpoints

    def save(self, log: Log) -> None:
        """Write the log up to here, then all that is needed to continue bit for bit."""
        self._show_doing("saving a checkpoint", 0, 0)
        log.flush()
        self.checkpoints.save(
            self.step,
            self.state_dict(),
            rank=self.accelerator.process_index,
            wait=self.accelerator.wait_for_everyone,
        )

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to continue bit for bit."""
        model, optimizer = weights_of(self.accelerator, self.model, self.phase.optimizer)
        return {
            "step": self.step,
            "seconds": self.seconds,
            "training_seconds": self.training_seconds,
            "place": self.phase_index,
            "model": model,
            "optimizer": optimizer,
            "phase": self.phase.state_dict(),
            "regularizers": self.regularizers.state_dict(),
            **self.evaluator.state_dict(),
            "running": dict(self.progress.losses),
            **random_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        if self.phase_index != state["place"]:
            self.begin(int(state["place"]))
        load_weights(
            self.accelerator, self.model, self.phase.optimizer, state["model"], state["optimizer"]
        )
        self.phase.load_state_dict(state["phase"])
        self.regularizers.load_state_dict(state["regularizers"])
        self.step = int(state["step"])
        self.seconds = float(state["seconds"])
        self.training_seconds = float(state.get("training_seconds", 0.0))
        self.evaluator.load_state_dict(state)
        self.progress.losses = dict(state["running"])
        set_random_state(state)

    def resume(self) -> bool:
        """Continue from the newest checkpoint that can be read; returns whether there is one.

        A checkpoint whose best weights are lost is used only if there is no other.
        """
        rank, lost = self.accelerator.process_index, False
        gather = partial(gathered, self.accelerator)
        found = self.checkpoints.newest(rank, self.say, self.evaluator.check_best, gather)
        if found is None:
            found, lost = self.checkpoints.newest(rank, gather=gather), True
        if found is None:
            return False
        path, state = found
        add_weights_of_all(path, state)  # sharded ones are kept whole, once
        with fitting(path):
            heads = self.problem.model.head_of.values()
            self.load_state_dict(with_head_keys(state, heads, state["model"]))
        if self.accelerator.is_main_process:
            self.evaluator.kept.remove_after(path)
        if lost:
            self.say(
                f"The best weights, of step {self.evaluator.best_step}, are lost: from step "
                f"{self.step} on the best are chosen again."
            )
            with self.phase.method.outer_weights():
                self.evaluator.keep_best(self.step)
        return True
