"""What each method costs on this machine: processor time of a few real steps, and memory."""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradaccord.compare.budget import EqualBudget
from gradaccord.compare.specs import Spec
from gradaccord.methods.registry import METHODS
from gradaccord.runs.log import Log
from gradaccord.train.config import Config, MethodConfig, ProbeConfig, SamplerConfig
from gradaccord.train.dry_run import memory_of
from gradaccord.train.loop import TrainingLoop
from gradaccord.train.problem import Problem

LONG = EqualBudget(kind="gradients", amount=1e9)  # no step comes near the end of it


@dataclass(frozen=True)
class MethodCost:
    """What one method costs. The batches are the same for all."""

    method: str
    batch_seconds: float  # processor seconds, on average over tasks
    memory_mb: float  # besides activations


@contextmanager
def loop_of(
    spec: Spec, base: Config, problem: Problem, accelerator: Any, rounds: int = 1
) -> Iterator[TrainingLoop]:
    """A run of a method at its first step, with tasks in turn; it trains a copy of the model.

    rounds: batches of each task that it will take.
    """
    config = spec.config(base, base.train.seed, LONG).with_class()
    entry = METHODS[config.method.name]
    if entry.feed_with(config.method.options) == "blocks":  # else the first task alone would be seen
        method = MethodConfig(**{**config.method.model_dump(), "inner_steps": rounds})
        config = config.model_copy(update={"method": method})
    train = config.train.model_copy(
        update={"warm_start": None, "compile": False, "schedule": "constant", "warmup": 0.0}
    )
    quiet = ProbeConfig(cosine=False, distance=False)
    turns = SamplerConfig(name="round_robin")
    config = config.model_copy(update={"train": train, "probe": quiet, "sampler": turns})
    own = dataclasses.replace(problem, model=copy.deepcopy(problem.model))
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield TrainingLoop(config, own, Path(folder), accelerator)
    finally:
        accelerator.free_memory()


def measure_cost(
    spec: Spec, base: Config, problem: Problem, accelerator: Any, rounds: int = 2
) -> MethodCost:
    """A few steps of a method on a copy of the model; what cannot be built or trained raises.

    rounds: batches of each task, the same ones for every method.
    """
    log = Log(None)
    with loop_of(spec, base, problem, accelerator, rounds) as loop:
        while loop.phase.seen < rounds * len(problem.trained):
            loop.take_step(log)
        memory = sum(memory_of(loop).values())
        return MethodCost(str(spec), loop.training_seconds / loop.phase.seen, memory)
