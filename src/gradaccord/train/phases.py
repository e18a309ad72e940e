"""The phases of a run: a warm start if one is configured, then the main phase."""

from __future__ import annotations

import math
from typing import Any

from torch import nn

from gradaccord.methods.registry import Entry, find_method
from gradaccord.train.config import Config
from gradaccord.train.phase import Budget, Phase, batches_of
from gradaccord.train.setup import Problem


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
        self.method = find_method(config.method.name)
        self.given: dict[str, Any] = {
            "trunk": trunk,
            "trainable": trainable,
            "accelerator": accelerator,
            "cost": cost,
        }

    def __len__(self) -> int:
        return 1 if self.config.train.warm_start is None else 2

    def begin(self, place: int) -> Phase:
        """The phase at a place, at its beginning."""
        return self._main() if place == len(self) - 1 else self._warm_start()

    def _main(self) -> Phase:
        train = self.config.train
        budget = None
        if train.steps is not None:
            budget = Budget(train.steps, "steps")
        elif train.gradients is not None:
            budget = Budget(train.gradients, "gradients")
        return self._phase("main", self.problem.trained, self.method, budget)

    def _warm_start(self) -> Phase:
        warm = self.config.train.warm_start
        assert warm is not None
        length = len(batches_of(self.problem.prepared[warm.task], self._batch_size(warm.task), 0))
        budget = Budget(math.ceil(warm.epochs * length), "batches")
        return self._phase("warm start", (warm.task,), find_method("sum"), budget)

    def _phase(self, name: str, tasks: tuple[str, ...], method: Entry, budget: Budget | None) -> Phase:
        batches = {
            task: batches_of(
                self.problem.prepared[task], self._batch_size(task), self.config.train.seed + 7919 * i
            )
            for i, task in enumerate(tasks)
        }
        return Phase(name, self.config, method, batches, budget=budget, **self.given)

    def _batch_size(self, task: str) -> int:
        """Rows of a task's batch, over all processes."""
        return self.problem.batch_sizes.get(task, self.config.train.batch_size)
