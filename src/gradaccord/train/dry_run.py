"""A dry run: a batch of every task and a few steps, their memory, how long the run would be."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from gradaccord.methods.registry import SINGLE_TASK
from gradaccord.runs.duration import duration
from gradaccord.runs.log import Log
from gradaccord.runs.usage import peak_memory
from gradaccord.train.config import Config, MethodConfig
from gradaccord.train.loop import TrainingLoop
from gradaccord.train.run import describe, make_accelerator, seed_everything
from gradaccord.train.setup import load_problem

STEPS = 3  # timed; the first one is slower, and the fastest counts


@dataclass(frozen=True)
class Estimate:
    """Of the training of a run; evaluation is not counted, nor are activations."""

    step_seconds: float
    steps: int
    gradients: float
    memory_mb: float

    @property
    def seconds(self) -> float:
        """Of all steps."""
        return self.step_seconds * self.steps


def dry_run(config: Config, data: Path | None = None) -> Iterator[str]:
    """Sentences about the run, one by one. A configuration that cannot run raises."""
    if config.method.name == SINGLE_TASK:
        yield "stl trains one model per task; this tries all tasks at once."
        config = config.model_copy(update={"method": MethodConfig(name="sum")})
    accelerator = make_accelerator(config)
    seed_everything(config.train.seed)
    problem = load_problem(config, data)
    yield "The configuration is valid, and all data can be read."
    yield from describe(config, problem, accelerator)
    with tempfile.TemporaryDirectory() as folder:
        loop = TrainingLoop(config, problem, Path(folder), accelerator)
        loop.begin(len(loop.phases) - 1)
        for task in problem.trained:
            rows = loop.phase.batches[task].batch_size
            batch = problem.prepared[task].encoded["train"].batch(range(rows))
            shape = "x".join(map(str, batch["input_ids"].shape)) if "input_ids" in batch else rows
            with torch.no_grad():
                loss, _ = problem.prepared[task].task.loss(loop.model(task, batch), batch)
            yield f"{task}: a batch of {shape} tokens, loss {float(loss):.3f}."
        found = _timed(loop)
        parts = _memory(loop)
        shown = ", ".join(f"{name} {size:,.0f} MB" for name, size in parts.items() if size)
        yield (
            f"Memory: {shown}; {found.memory_mb:,.0f} MB besides activations; peak so far "
            f"{peak_memory():,.0f} MB."
        )
        yield (
            f"About {duration(found.seconds)} of training: {found.steps:,} steps of "
            f"{found.step_seconds:.2f} s, {found.gradients:,.0f} batch gradients "
            "(evaluation not counted)."
        )


def estimate(config: Config, data: Path | None = None) -> Estimate:
    """The same in numbers, after a few steps. `stl` is timed as a sum of all tasks."""
    if config.method.name == SINGLE_TASK:
        config = config.model_copy(update={"method": MethodConfig(name="sum"), "sampler": None})
    accelerator = make_accelerator(config)
    seed_everything(config.train.seed)
    problem = load_problem(config, data)
    with tempfile.TemporaryDirectory() as folder:
        loop = TrainingLoop(config, problem, Path(folder), accelerator)
        loop.begin(len(loop.phases) - 1)
        return _timed(loop)


def _timed(loop: TrainingLoop) -> Estimate:
    log, times = Log(None), []
    for _ in range(STEPS):
        began = time.perf_counter()
        loop.take_step(log)
        times.append(time.perf_counter() - began)
    steps = round(loop.phase.budget.amount / loop.phase.step_cost)
    gradients = loop.phase.gradients / STEPS * steps
    return Estimate(min(times), steps, gradients, sum(_memory(loop).values()))


def _memory(loop: TrainingLoop) -> dict[str, float]:
    """What takes memory besides activations, in MB."""
    weights = sum(p.numel() * p.element_size() for p in loop.trainable.parameters())
    trained = sum(p.numel() * p.element_size() for p in loop.trainable.parameters() if p.requires_grad)
    state = sum(
        value.numel() * value.element_size()
        for own in loop.phase.optimizer.state.values()
        for value in own.values()
        if isinstance(value, torch.Tensor)
    )
    copies = loop.phase.entry.copies_with(len(loop.problem.trained))
    shared = sum(p.numel() * p.element_size() for p in loop.trunk.parameters() if p.requires_grad)
    parts = {
        "weights": weights,
        "gradients": trained,
        "optimiser": state,
        f"{copies} more of the trunk's size for the method": copies * shared,
    }
    return {name: size / 2**20 for name, size in parts.items()}
