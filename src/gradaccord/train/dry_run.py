"""A dry run: a batch of every task and a few steps, their memory, how long the run would be."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.methods.registry import SINGLE_TASK
from gradaccord.runs.duration import duration
from gradaccord.runs.log import Log
from gradaccord.runs.usage import peak_memory
from gradaccord.tasks.data_card import DataCard
from gradaccord.train.config import Config, MethodConfig
from gradaccord.train.loop import TrainingLoop
from gradaccord.train.run import describe, make_accelerator, seed_everything
from gradaccord.train.setup import load_problem
from gradaccord.train.time_left import evaluations

STEPS = 3  # timed; the first one is slower, and the fastest counts
BATCHES = 4  # of each task that are evaluated, from the longest texts to the shortest
PATIENCE = 10.0  # seconds that these may take, of each task and split


@dataclass(frozen=True)
class Estimate:
    """What a run takes; memory without activations."""

    step_seconds: float
    steps: int
    gradients: float
    evaluations: int  # on dev during training
    dev_seconds: float  # of one of them
    test_seconds: float
    probe_seconds: float  # of all
    memory_mb: float

    @property
    def training_seconds(self) -> float:
        """Of all steps."""
        return self.step_seconds * self.steps

    @property
    def evaluation_seconds(self) -> float:
        """Of all evaluations; at the end the best weights once more on dev, and on test."""
        return (self.evaluations + 1) * self.dev_seconds + self.test_seconds

    @property
    def seconds(self) -> float:
        """Of all."""
        return self.training_seconds + self.evaluation_seconds + self.probe_seconds

    def __str__(self) -> str:
        on_test = f"; once on test, {self.test_seconds:.1f} s" if self.test_seconds else ""
        return (
            f"About {duration(self.seconds)} in all: {duration(self.training_seconds)} of training "
            f"({self.steps:,} steps of {self.step_seconds:.2f} s, {self.gradients:,.0f} batch "
            f"gradients), {duration(self.evaluation_seconds)} of evaluation ({self.evaluations + 1} "
            f"times on dev, {self.dev_seconds:.1f} s each{on_test}) and "
            f"{duration(self.probe_seconds)} of probes ({self.evaluations} times)."
        )


def dry_run(
    config: Config, data: Path | None = None, watch: Watch = NOBODY
) -> Iterator[str | DataCard]:
    """Sentences about the run, then what the data of each task is like, one by one.

    A configuration that cannot run raises.
    """
    if config.method.name == SINGLE_TASK:
        yield "stl trains one model per task; this tries all tasks at once."
        config = config.model_copy(update={"method": MethodConfig(name="sum")})
    accelerator = make_accelerator(config)
    seed_everything(config.train.seed)
    problem = load_problem(config, data, watch)
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
        yield str(found)
    yield from problem.cards.values()


def _evaluation(loop: TrainingLoop, split: str) -> float:
    """Seconds that the model takes for a split, from a few batches of each task; scoring is quick."""
    size, total = loop.config.train.evaluation_batch_size, 0.0
    loop.model.eval()
    for name in loop.problem.evaluated(split):
        prepared = loop.problem.prepared[name]
        if not prepared.labelled(split):
            continue
        encoded = prepared.encoded[split]
        order = encoded.lengths.argsort(descending=True, stable=True).tolist()
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        chosen = batches[:: max(len(batches) // BATCHES, 1)]
        began, done = time.perf_counter(), 0
        for rows in chosen:
            batch = {k: v.to(loop.accelerator.device) for k, v in encoded.batch(rows).items()}
            with torch.no_grad():
                prepared.task.read(loop.model, name, batch)
            done += 1
            if time.perf_counter() - began > PATIENCE:
                break
        total += (time.perf_counter() - began) / max(done, 1) * len(batches)
    loop.model.train()
    return total


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
    count = evaluations(loop.config.train.evaluate_every, steps)
    dev, test = _evaluation(loop, "dev"), _evaluation(loop, "test")
    began = time.perf_counter()
    loop.evaluator.probes.measure(loop.model, loop.accelerator)
    probes = count * (time.perf_counter() - began)
    memory = sum(_memory(loop).values())
    return Estimate(min(times), steps, gradients, count, dev, test, probes, memory)


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
