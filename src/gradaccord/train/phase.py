"""The phases of a run (a warm start if configured, then the main phase) and what each is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from gradaccord.data.samplers import TaskBatches
from gradaccord.methods.registry import BASELINE, Entry, Feed, find_method
from gradaccord.runs.schedule import Schedule
from gradaccord.tasks.prepare import Prepared
from gradaccord.train.config import Config
from gradaccord.train.optimizers import make_optimizer
from gradaccord.train.problem import Problem
from gradaccord.train.step_batches import StepBatches, make_sampler

EPOCHS = 3.0  # where no length is configured

Unit = Literal["batches", "steps", "gradients", "seconds"]


@dataclass(frozen=True)
class Budget:
    """How long a phase is, and in what that is counted."""

    amount: float
    unit: Unit


class Phase:
    """Batches, method, optimiser and schedule of the main phase or the warm start, with its budget.

    Only the main phase uses the configured method, sampler and task weights.
    """

    def __init__(
        self,
        name: str,
        config: Config,
        entry: Entry,
        batches: Mapping[str, TaskBatches[int]],
        *,
        trunk: nn.Module,
        trainable: nn.Module,
        accelerator: Any,
        cost: float,
        budget: Budget | None,
        weights: Mapping[str, float],
    ) -> None:
        train = config.train
        main = name == "main"
        options = dict(config.method.options) if main else {}
        feed = entry.feed_with(options)
        self.name = name
        self.entry = entry
        self.batches = dict(batches)
        self.weights = {task: weights[task] if main else 1.0 for task in batches}
        self.sampler = config.sampler if main else None
        self.seed = train.seed
        self.feed: Feed = feed
        self.block = entry.block_with(options)
        self.dropped: list[str] = []
        self.step_batches = self._step_batches()
        own = list(trunk.parameters())
        known = {id(p) for p in own}
        others = [p for p in trainable.parameters() if id(p) not in known]
        by_rows = any(isinstance(m, nn.Embedding) and m.sparse for m in trunk.modules())
        made = make_optimizer(train, own, others, by_rows=by_rows)
        self.optimizer = accelerator.prepare_optimizer(made)
        self.schedule = Schedule(self.optimizer, train.schedule, train.warmup)
        self.method = entry.build(
            trainable,
            self.optimizer,
            tasks=tuple(self.batches),
            engine=accelerator,
            seed=train.seed,
            **options,
        )
        self.cost = entry.cost_with(options) * cost  # batch gradients that one batch takes
        self.budget = budget or self._epochs(train.epochs or EPOCHS)
        self.spent = 0.0  # in the budget's unit
        self.gradients = 0.0
        # Of the last step, in the budget's unit; seconds of the first one are a guess.
        self.step_cost = 1e-3 * self.budget.amount if self.budget.unit == "seconds" else 1.0
        self.seen = 0  # batches

    def _step_batches(self) -> StepBatches:
        """The batches of all tasks but those that were dropped, from the beginning."""
        batches = {task: own for task, own in self.batches.items() if task not in self.dropped}
        name, options, pairs = None, {}, None
        if self.sampler is not None:
            name, options, pairs = self.sampler.name, self.sampler.options, self.sampler.pairs
        if self.dropped and "weights" in options:
            options["weights"] = {t: w for t, w in options["weights"].items() if t in batches}
        sampler = make_sampler(name, options, self.feed, batches, self.seed + len(self.dropped), pairs)
        return StepBatches(sampler, batches, self.feed, self.block)

    def drop(self, tasks: Sequence[str]) -> None:
        """Stop drawing these tasks; the sampler starts again on the others, whose batches go on."""
        self.dropped += tasks
        self.step_batches = self._step_batches()

    def _epochs(self, epochs: float) -> Budget:
        batches = epochs * sum(len(own) for own in self.batches.values())
        return Budget(math.ceil(batches - 1e-9), "batches")

    @property
    def share(self) -> float:
        """How much of the budget is spent, 0 to 1."""
        return min(self.spent / self.budget.amount, 1.0)

    @property
    def over(self) -> bool:
        """Whether the whole budget is spent."""
        return self.spent >= self.budget.amount - 1e-9

    def count(self, batches: int, seconds: float) -> None:
        """Count a step on this many batches that took this many processor seconds."""
        gradients = batches * self.cost
        costs = {"batches": batches, "steps": 1, "gradients": gradients, "seconds": seconds}
        self.step_cost = costs[self.budget.unit]
        self.spent += self.step_cost
        self.seen += batches
        self.gradients += gradients

    def state_dict(self) -> dict[str, Any]:
        """All but the optimiser, which is saved with the weights."""
        return {
            "name": self.name,
            "spent": self.spent,
            "gradients": self.gradients,
            "seen": self.seen,
            "step_cost": self.step_cost,
            "dropped": list(self.dropped),
            "step_batches": self.step_batches.state_dict(),
            "method": self.method.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.spent = float(state["spent"])
        self.gradients = float(state["gradients"])
        self.seen = int(state.get("seen", 0))
        self.step_cost = float(state["step_cost"])
        if state.get("dropped"):
            self.drop(state["dropped"])
        self.step_batches.load_state_dict(state.get("step_batches") or state["feeder"])  # as in 0.1
        self.method.load_state_dict(state["method"])


def batches_of(prepared: Prepared, batch_size: int, seed: int) -> TaskBatches[int]:
    """The training batches of a task: rows of similar length together, a short last one left out."""
    encoded = prepared.encoded["train"]
    if not len(encoded):
        raise ValueError(f"Task {prepared.name!r} has no training examples: raise `limit.train`.")
    return TaskBatches(
        range(len(encoded)),
        min(batch_size, len(encoded)),
        drop_last=True,
        lengths=encoded.lengths.int() if encoded.ids is not None else None,
        seed=seed,
    )


class Phases:
    """Sets each phase up when it begins, from the weights as they are then."""

    def __init__(
        self,
        config: Config,
        problem: Problem,
        *,
        trunk: nn.Module,
        trainable: nn.Module,
        accelerator: Any,
        cost: float,
    ) -> None:
        self.config = config
        self.problem = problem
        self.given: dict[str, Any] = {
            "trunk": trunk,
            "trainable": trainable,
            "accelerator": accelerator,
            "cost": cost,
        }

    def __len__(self) -> int:
        return 1 if self.config.train.warm_start is None else 2

    def begin(self, index: int) -> Phase:
        """The phase of this index, at its beginning."""
        return self._main() if index == len(self) - 1 else self._warm_start()

    def _main(self) -> Phase:
        train = self.config.train
        budget = None
        if train.steps is not None:
            budget = Budget(train.steps, "steps")
        elif train.gradients is not None:
            budget = Budget(train.gradients, "gradients")
        elif train.seconds is not None:
            budget = Budget(train.seconds, "seconds")
        return self._phase("main", self.problem.trained, find_method(self.config.method.name), budget)

    def _warm_start(self) -> Phase:
        warm = self.config.train.warm_start
        assert warm is not None
        length = len(batches_of(self.problem.prepared[warm.task], self._batch_size(warm.task), 0))
        budget = Budget(math.ceil(warm.epochs * length), "batches")
        return self._phase("warm start", (warm.task,), find_method(BASELINE), budget)

    def _phase(self, name: str, tasks: tuple[str, ...], method: Entry, budget: Budget | None) -> Phase:
        batches = {
            task: batches_of(
                self.problem.prepared[task], self._batch_size(task), self.config.train.seed + 7919 * i
            )
            for i, task in enumerate(tasks)
        }
        weights = self.problem.weights
        return Phase(name, self.config, method, batches, budget=budget, weights=weights, **self.given)

    def _batch_size(self, task: str) -> int:
        """Rows of a task's batch, over all processes."""
        return self.problem.batch_sizes.get(task, self.config.train.batch_size)
