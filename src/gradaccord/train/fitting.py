"""The training loop: steps, evaluations, checkpoints, and a clean end however it comes."""

from __future__ import annotations

import math
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gradaccord.core.gather import LossNotFiniteError
from gradaccord.core.report import StepReport
from gradaccord.core.sharding import is_sharded
from gradaccord.data.encoded import Batch
from gradaccord.train.checkpoints import CHECKPOINTS, Checkpoints
from gradaccord.train.checkpoints import load as load_checkpoint
from gradaccord.train.config import Config
from gradaccord.train.feeding import Drawn
from gradaccord.train.interrupts import Interrupts
from gradaccord.train.methods import Entry, find_method
from gradaccord.train.phase import Budget, Phase, batches_of
from gradaccord.train.probing import Probes
from gradaccord.train.problem import Problem
from gradaccord.train.regularizing import Regularizers
from gradaccord.train.run_folder import Log
from gradaccord.train.weights import load_weights, reshard, skeleton_of, weights_of, wrap


class TrainingError(RuntimeError):
    """Training cannot go on; the message says why, and what is kept."""


@dataclass
class Progress:
    """Where a run stands, for a screen."""

    phase: str
    step: int
    share: float  # of this phase
    seconds_left: float
    losses: dict[str, float] = field(default_factory=dict)  # running means
    conflicts: float = math.nan
    cosine: float = math.nan
    scores: dict[str, float] = field(default_factory=dict)  # of the last evaluation
    best: float = math.nan


class Fit:
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
        self.folder = folder
        self.accelerator = accelerator
        self.show, self.say = show, say
        self.trunk: Any = problem.model.trunk
        self.probes = Probes(config, problem)
        self.model: nn.Module = problem.model
        self.regularizers = Regularizers(
            problem.model, [(term.name, term.options) for term in config.regularize]
        )
        self.skeleton = skeleton_of(accelerator, problem.model)
        self.model = wrap(accelerator, problem.model).train()  # trunks come in eval mode
        self.trainable = self.regularizers.whole(self.model)
        self.checkpoints = Checkpoints(folder / CHECKPOINTS, config.train.keep)
        self.step = 0
        self.seconds = 0.0  # of training, over all sessions
        self.phases = self._plan()
        self.place = 0
        self.phase = self.begin(0)
        self.best = -math.inf
        self.best_step = 0
        self.without_better = 0
        self.evaluations: list[dict[str, Any]] = []
        self.running: dict[str, float] = {}
        self.interrupted = False
        self.whole = True  # between two steps: what is saved now continues bit for bit
        self._last = Progress("main", 0, 0.0, math.nan)

    # What there is to do

    def _plan(self) -> list[Callable[[], Phase]]:
        train = self.config.train
        entry = find_method(self.config.method.name)
        budget = None
        if train.steps is not None:
            budget = Budget(train.steps, "steps")
        elif train.gradients is not None:
            budget = Budget(train.gradients, "gradients")
        plan = [partial(self._phase, "main", self.problem.trained, entry, budget)]
        warm = train.warm_start
        if warm is not None:
            length = len(batches_of(self.problem.prepared[warm.task], self.batch_size(warm.task), 0))
            first = Budget(math.ceil(warm.epochs * length), "batches")
            plan.insert(0, partial(self._phase, "warm start", (warm.task,), find_method("sum"), first))
        return list(plan)

    def _phase(self, name: str, tasks: tuple[str, ...], entry: Entry, budget: Budget | None) -> Phase:
        batches = {
            task: batches_of(
                self.problem.prepared[task], self.batch_size(task), self.config.train.seed + 7919 * i
            )
            for i, task in enumerate(tasks)
        }
        return Phase(
            name,
            self.config,
            entry,
            batches,
            trunk=self.trunk,
            trainable=self.trainable,
            accelerator=self.accelerator,
            cost=self.regularizers.cost,
            budget=budget,
        )

    def begin(self, place: int) -> Phase:
        """Set a phase up, from the weights as they are."""
        self.place = place
        return self.phases[place]()

    def batch_size(self, task: str) -> int:
        """Rows of a task's batch, over all processes."""
        return self.problem.batch_sizes.get(task, self.config.train.batch_size)

    # The loop

    def run(self, log: Log) -> None:
        """Train to the end, or to the first of: Ctrl-C, no better score for long, a loss of NaN."""
        with Interrupts() as interrupts:
            try:
                for _ in self.steps(log, interrupts):
                    pass
            except KeyboardInterrupt:
                self._interrupt()
        log.flush()

    def steps(self, log: Log, interrupts: Interrupts) -> Iterator[int]:
        """The loop itself; gives the number of every step when all that is due after it is done."""
        began = time.perf_counter() - self.seconds
        start_share, start_time = self.phase.share, time.perf_counter()
        while True:
            if self.phase.over:
                if self.place + 1 == len(self.phases):
                    return
                self.phase = self.begin(self.place + 1)
                start_share, start_time = 0.0, time.perf_counter()
            self.take_step(log)
            self.seconds = time.perf_counter() - began
            share = self.phase.share
            pace = (time.perf_counter() - start_time) / max(share - start_share, 1e-9)
            self._tell(pace * (1 - share))
            # Where the phase is over the trajectory is ended before anything is measured.
            if self.phase.over:
                self._finish()
            if self._due(self.config.train.evaluate_every):
                self.evaluate(log)
                if self._stalled():
                    self._finish()
                    return
            if self._due(self.config.train.save_every):
                self.save()
            self.whole = True
            if interrupts.agreed(self.accelerator):
                self._interrupt()
                return
            yield self.step

    def _interrupt(self) -> None:
        self.interrupted = True
        if self.whole:
            self.save()

    def take_step(self, log: Log) -> None:
        """One optimiser step."""
        self.whole = False
        phase = self.phase
        drawn = next(phase.feeder)
        losses = {one.name: self._calls(one) for one in drawn}
        phase.schedule.set(phase.share, phase.step_cost / phase.budget.amount)
        try:
            report: StepReport = phase.method.backward(losses)
        except LossNotFiniteError as error:
            raise self._not_finite([error.task], drawn) from error
        self._check(report, drawn)
        clip = self.config.train.clip
        if clip is not None:
            length = self.accelerator.clip_grad_norm_(self.trainable.parameters(), clip)
            length = length.full_tensor() if is_sharded(length) else length
            if self.accelerator.scaler is None and not bool(torch.isfinite(length)):
                raise self._not_finite([one.name for one in drawn], drawn)
        phase.optimizer.step()
        phase.method.after_step()
        self.regularizers.after_step()
        phase.optimizer.zero_grad()
        phase.count(len(drawn))
        self.step += 1
        self._note(report, drawn, log)

    def _calls(self, drawn: Drawn) -> list[Callable[[], Any]]:
        """The micro-batches of a batch, this process's part of each."""
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
            calls.append(self.regularizers.loss(prepared.task, drawn.task, forward, batch))
        return calls

    def _check(self, report: StepReport, drawn: list[Drawn]) -> None:
        if report.finite and bool(torch.isfinite(report.losses).all()):
            return
        if self.accelerator.scaler is not None and bool(torch.isfinite(report.losses).all()):
            return  # float16: the scaler skips the step
        wrong = [
            task
            for task, loss, norm in zip(report.tasks, report.losses, report.norms, strict=True)
            if not math.isfinite(loss) or math.isinf(norm) or math.isnan(norm)
        ] or list(report.tasks)
        raise self._not_finite(wrong, drawn)

    def _not_finite(self, wrong: list[str], drawn: list[Drawn]) -> TrainingError:
        rows = next((one for one in drawn if one.name in wrong), drawn[0])
        prepared = self.problem.prepared[rows.task]
        examples = prepared.encoded["train"].example[list(rows.rows)].tolist()
        ids = [getattr(prepared.splits["train"][i], "id", "") or str(i) for i in examples]
        kept = self.checkpoints.all()
        return TrainingError(
            f"The loss or gradient of {rows.task!r} is not finite at step {self.step + 1} (examples "
            f"{', '.join(ids[:8])}{', ...' if len(ids) > 8 else ''}): lower train.lr or look at these; "
            + (f"the checkpoint before is {kept[-1]}." if kept else "no checkpoint was written yet.")
        )

    def _note(self, report: StepReport, drawn: list[Drawn], log: Log) -> None:
        losses = dict(zip(report.tasks, report.losses.tolist(), strict=True))
        for one in drawn:
            before = self.running.get(one.task, losses[one.name])
            self.running[one.task] = before + 0.1 * (losses[one.name] - before)
        record: dict[str, Any] = {
            "event": "step",
            "step": self.step,
            "phase": self.phase.name,
            "share": round(self.phase.share, 6),
            "gradients": round(self.phase.gradients, 3),
            "seconds": round(self.seconds, 3),
            "lr": self.phase.optimizer.param_groups[0]["lr"],
            "loss": losses,
        }
        if len(report.tasks) > 1:
            pairs = report.pairs
            record["cosine"] = report.mean_cosine
            record["conflicts"] = report.conflicts
            record["dot"] = _mean_dot(report)
            self._last.cosine = report.mean_cosine
            if pairs:
                before = self._last.conflicts
                now = report.conflicts
                self._last.conflicts = now if math.isnan(before) else before + 0.05 * (now - before)
        extras = {**report.extras, **self.regularizers.to_floats()}
        if extras:
            record["extras"] = extras
        log.write(**record)

    def _tell(self, seconds_left: float) -> None:
        last = self._last
        last.phase, last.step, last.share = self.phase.name, self.step, self.phase.share
        last.seconds_left = seconds_left
        last.losses = self.running
        self.show(last)

    def _finish(self) -> None:
        """A trajectory that is not over yet counts, too; so does a batch that waits for a partner."""
        finish = getattr(self.phase.method, "finish", None)
        if finish is not None:
            finish()
            if getattr(self.phase.method, "waiting", None) is None and _has_gradients(self.trainable):
                self.phase.optimizer.step()
                self.phase.optimizer.zero_grad()

    def _due(self, every: int | float) -> bool:
        """Whether one of the points at which something is done lies in the last step."""
        if self.place + 1 < len(self.phases):
            return False
        if self.phase.over:
            return True
        if isinstance(every, int):
            return self.step % every == 0
        if every == 0:
            return False
        before = (self.phase.spent - self.phase.step_cost) / self.phase.budget.amount
        return math.floor(self.phase.share / every + 1e-9) > math.floor(before / every + 1e-9)

    # Evaluation

    def at_outer_weights(self) -> AbstractContextManager[None]:
        """Where trajectory methods are judged: at phi, not at where the trajectory is just now."""
        at_phi = getattr(self.phase.method, "at_phi", None)
        return nullcontext() if at_phi is None else at_phi()

    def evaluate(self, log: Log) -> dict[str, Any]:
        """Score every task on dev, measure the probes, keep the model if it is the best so far."""
        began = time.perf_counter()
        with self.at_outer_weights():
            scores = self.scores("dev")
            probed = self.probes.measure(self.model, self.accelerator)
            average = _average(scores, self.problem, self.problem.judged)
            # Without a labelled dev split nothing can be chosen by, and the last weights are kept.
            better = average > self.best or not self.evaluations or math.isnan(average)
            if better:
                self.best, self.best_step, self.without_better = average, self.step, 0
                self._save_best()
            else:
                self.without_better += 1
        record = {
            "event": "evaluation",
            "step": self.step,
            "gradients": round(self.phase.gradients, 3),
            "seconds": round(self.seconds, 3),
            "evaluation_seconds": round(time.perf_counter() - began, 3),
            "scores": scores,
            "average": average,
            "train_loss": dict(self.running),
            **probed,
        }
        self.evaluations.append(record)
        log.write(**record)
        log.flush()
        self._last.scores = {task: _main(self.problem, task, own) for task, own in scores.items()}
        self._last.best = self.best
        return record

    def scores(self, split: str) -> dict[str, dict[str, float]]:
        """Every task's metrics on a split, in percent."""
        return {task: evaluated.scores for task, evaluated in self.evaluated(split).items()}

    def evaluated(self, split: str) -> dict[str, Any]:
        """Every task's evaluation on a split; splits without labels are left out."""
        from gradaccord.tasks.evaluation import evaluate

        found = {}
        for task in self.problem.evaluated(split):
            prepared = self.problem.prepared[task]
            examples = prepared.splits[split]
            if not any(prepared.task.gold(example) is not None for example in examples):
                continue
            found[task] = evaluate(
                self.model,
                task,
                prepared.task,
                examples,
                prepared.encoded[split],
                batch_size=self.config.train.evaluation_batch_size,
            )
        reshard(self.accelerator, self.model)
        return found

    def _stalled(self) -> bool:
        patience = self.config.train.patience
        return patience is not None and self.without_better >= patience

    # Checkpoints

    def save(self) -> None:
        """Write all that it takes to continue bit for bit."""
        self.checkpoints.save(
            self.step,
            self.state_dict(),
            rank=self.accelerator.process_index,
            wait=self.accelerator.wait_for_everyone,
        )

    def state_dict(self) -> dict[str, Any]:
        """All that it takes to continue bit for bit."""
        model, optimizer = weights_of(self.accelerator, self.model, self.phase.optimizer)
        return {
            "step": self.step,
            "seconds": self.seconds,
            "place": self.place,
            "model": model,
            "optimizer": optimizer,
            "phase": self.phase.state_dict(),
            "regularizers": self.regularizers.state_dict(),
            "best": self.best,
            "best_step": self.best_step,
            "without_better": self.without_better,
            "evaluations": self.evaluations,
            "running": dict(self.running),
            "probes": self.probes.state_dict(),
            "random": torch.get_rng_state(),
            "cuda_random": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        if self.place != state["place"]:
            self.phase = self.begin(int(state["place"]))
        load_weights(
            self.accelerator, self.model, self.phase.optimizer, state["model"], state["optimizer"]
        )
        self.phase.load_state_dict(state["phase"])
        self.regularizers.load_state_dict(state["regularizers"])
        self.step = int(state["step"])
        self.seconds = float(state["seconds"])
        self.best = float(state["best"])
        self.best_step = int(state["best_step"])
        self.without_better = int(state["without_better"])
        self.evaluations = list(state["evaluations"])
        self.running = dict(state["running"])
        self.probes.load_state_dict(state["probes"])
        torch.set_rng_state(state["random"])
        if torch.cuda.is_available() and state["cuda_random"]:
            torch.cuda.set_rng_state_all(state["cuda_random"])

    def resume(self) -> bool:
        """Continue from the newest checkpoint that can be read; says which ones could not."""
        for path, state in self.checkpoints.latest(self.accelerator.process_index):
            if isinstance(state, dict):
                if not state["model"]:  # sharded weights are kept whole, once
                    first = load_checkpoint(path)
                    state |= {key: first[key] for key in ("model", "optimizer")}
                self.load_state_dict(state)
                return True
            self.say(f"The checkpoint {path.name} is left out: {state} The one before is used.")
        return False

    def _save_best(self) -> None:
        model, _ = weights_of(self.accelerator, self.model, None)
        if self.accelerator.is_main_process:
            Checkpoints(self.folder / "best", keep=1).save(self.step, {"model": model})
        self.accelerator.wait_for_everyone()

    def load_best(self) -> None:
        """Put the best weights into the model."""
        for _, state in Checkpoints(self.folder / "best", keep=1).latest():
            if isinstance(state, dict):
                load_weights(self.accelerator, self.model, None, state["model"], None)
                return
            raise TrainingError(f"The best weights cannot be read: {state}")


def _has_gradients(model: nn.Module) -> bool:
    return any(p.grad is not None for p in model.parameters())


def _main(problem: Problem, task: str, scores: Mapping[str, float]) -> float:
    return scores[problem.prepared[task].task.metric]


def _average(
    scores: Mapping[str, Mapping[str, float]], problem: Problem, tasks: tuple[str, ...]
) -> float:
    """Mean of the trained tasks' main metrics; NaN if none was evaluated."""
    values = [_main(problem, task, scores[task]) for task in tasks if task in scores]
    return statistics.fmean(values) if values else math.nan


def _mean_dot(report: StepReport) -> float:
    first, second = torch.triu_indices(len(report.tasks), len(report.tasks), 1)
    return float(report.gram[first, second].mean())


def peak_memory() -> float:
    """Megabytes: of the GPU if there is one, else the most that this process has held."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
