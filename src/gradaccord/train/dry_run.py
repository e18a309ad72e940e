"""A dry run: a batch of every task and a few steps, their memory, how long the run would be."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.methods.registry import SINGLE_TASK
from gradaccord.runs.duration import duration
from gradaccord.runs.log import Log
from gradaccord.runs.usage import peak_memory
from gradaccord.tasks.data_card import DataCard
from gradaccord.train.config import Config
from gradaccord.train.cost_model import Line, combination_seconds, seconds_per_number, step_seconds
from gradaccord.train.loop import TrainingLoop
from gradaccord.train.problem import load_problem
from gradaccord.train.run import make_accelerator, seed_everything, start_messages
from gradaccord.train.step_batches import StepBatch
from gradaccord.train.time_left import evaluations

DRAWN = 40  # steps, to see which tasks and how many tokens they have
TIMED = 3  # gradients on a batch; the fastest counts
BATCHES = 4  # of each task that are evaluated, from the longest texts to the shortest, and probed
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
        """The time of all steps."""
        return self.step_seconds * self.steps

    @property
    def evaluation_seconds(self) -> float:
        """The time of all evaluations, with those of the best weights on dev and test at the end."""
        return (self.evaluations + 1) * self.dev_seconds + self.test_seconds

    @property
    def seconds(self) -> float:
        """The time of steps, evaluations and probes together."""
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
    """Sentences about the run, then a card of each task's data, one by one.

    Raises if the configuration cannot run.
    """
    if config.method.name == SINGLE_TASK:
        yield "stl trains one model per task; this tries all tasks at once."
    config = config.with_class()
    accelerator = make_accelerator(config)
    seed_everything(config.train.seed)
    problem = load_problem(config, data, watch)
    yield "The configuration is valid, and all data can be read."
    yield from start_messages(config, problem, accelerator)
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
        found = _timed(loop, watch)
        parts = memory_of(loop)
        shown = ", ".join(f"{name} {size:,.0f} MB" for name, size in parts.items() if size)
        yield (
            f"Memory: {shown}; {found.memory_mb:,.0f} MB without activations; peak so far "
            f"{peak_memory():,.0f} MB."
        )
        yield str(found)
    yield from problem.cards.values()


def _evaluation_seconds(loop: TrainingLoop, split: str, watch: Watch) -> float:
    """Seconds that the model takes for a split, from a few batches of each task; scoring is quick."""
    size, total = loop.config.train.evaluation_batch_size, 0.0
    loop.model.eval()
    names = loop.problem.evaluated(split)
    for name in watch.each(f"timing evaluation on {split}", names, len(names), every=1):
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
    """The estimate of `dry_run` in numbers. `stl` is timed as a sum of all tasks."""
    config = config.with_class()
    accelerator = make_accelerator(config)
    seed_everything(config.train.seed)
    problem = load_problem(config, data)
    with tempfile.TemporaryDirectory() as folder:
        loop = TrainingLoop(config, problem, Path(folder), accelerator)
        loop.begin(len(loop.phases) - 1)
        return _timed(loop)


def _timed(loop: TrainingLoop, watch: Watch = NOBODY) -> Estimate:
    phase = loop.phase
    loop.take_step(Log(None))  # that it works, and the optimiser has its state
    cost, gradients = phase.step_cost, phase.gradients
    drawn = [next(phase.step_batches) for _ in range(DRAWN)]
    lines = _gradient_lines(loop, [batch for step in drawn for batch in step], watch)
    mixed = [[(batch.task, _tokens(loop, batch)) for batch in step] for step in drawn]
    shared = sum(p.numel() for p in loop.trunk.parameters() if p.requires_grad)
    apart = len(drawn[0]) if phase.feed == "all" and not phase.entry.loss_only else 1
    seconds = (
        step_seconds(lines, mixed, phase.cost)
        + combination_seconds(apart, shared, seconds_per_number())
        + _optimizer_seconds(loop)
    )
    if phase.budget.unit == "seconds":
        cost = seconds
    steps = round(phase.budget.amount / cost)
    count = evaluations(loop.config.train.evaluate_every, steps)
    dev, test = (_evaluation_seconds(loop, split, watch) for split in ("dev", "test"))
    probes = count * _probe_seconds(loop, watch)
    memory = sum(memory_of(loop).values())
    return Estimate(seconds, steps, gradients * steps, count, dev, test, probes, memory)


def _probe_seconds(loop: TrainingLoop, watch: Watch) -> float:
    """The time of one measurement; that of cosines from a few of their batches."""
    probes, seconds = loop.evaluator.probes, 0.0
    began = time.perf_counter()
    if probes.cosines:
        count = probes.cosine_batches
        few = min(BATCHES, count)
        probes.measure_cosines(loop.model, loop.accelerator, few, watch)
        seconds = (time.perf_counter() - began) / few * count
        began = time.perf_counter()
    probes.measure_weights(watch)
    return seconds + time.perf_counter() - began


def _tokens(loop: TrainingLoop, drawn: StepBatch) -> int:
    """The number of tokens of a batch as it is padded."""
    lengths = loop.problem.prepared[drawn.task].encoded["train"].lengths
    return len(drawn.rows) * int(lengths[list(drawn.rows)].max())


def _gradient_lines(loop: TrainingLoop, drawn: Sequence[StepBatch], watch: Watch) -> dict[str, Line]:
    """Times of each task's gradient, on the smallest and the largest batch that was drawn."""
    lines = {}
    tasks = dict.fromkeys(one.task for one in drawn)
    for task in watch.each("timing steps", tasks, len(tasks), every=1):
        own = sorted((one for one in drawn if one.task == task), key=partial(_tokens, loop))
        ends = {_tokens(loop, one): one for one in (own[0], own[-1])}
        lines[task] = Line.through(
            (tokens, min(_gradient_seconds(loop, one) for _ in range(TIMED)))
            for tokens, one in ends.items()
        )
    return lines


def _gradient_seconds(loop: TrainingLoop, drawn: StepBatch) -> float:
    """Forward and backward pass of a batch, in its micro-batches, without regularisers."""
    prepared = loop.problem.prepared[drawn.task]
    parts = min(loop.config.train.micro_batches, len(drawn.rows))
    began = _clock(loop)
    for part in range(parts):
        rows = drawn.rows[part::parts]
        batch = prepared.encoded["train"].batch(rows)
        batch = {k: v.to(loop.accelerator.device) for k, v in batch.items()}
        loss, _ = prepared.task.loss(loop.model(drawn.task, batch), batch)
        loop.accelerator.backward(loss)
    return _clock(loop) - began


def _clock(loop: TrainingLoop) -> float:
    """Seconds by the wall, when the device has done all that it was given."""
    if loop.accelerator.device.type != "cpu":
        torch.accelerator.synchronize(loop.accelerator.device)
    return time.perf_counter()


def _optimizer_seconds(loop: TrainingLoop) -> float:
    """The time of a step on the gradients that are there; they are gone after it."""
    began = _clock(loop)
    loop.phase.optimizer.step()
    seconds = _clock(loop) - began
    loop.phase.optimizer.zero_grad()
    return seconds


def memory_of(loop: TrainingLoop) -> dict[str, float]:
    """What takes memory besides activations, in MB."""
    weights = sum(p.numel() * p.element_size() for p in loop.trainable.parameters())
    trained = sum(p.numel() * p.element_size() for p in loop.trainable.parameters() if p.requires_grad)
    state = sum(
        value.numel() * value.element_size()
        for own in loop.phase.optimizer.state.values()
        for value in own.values()
        if isinstance(value, torch.Tensor)
    )
    options = loop.config.method.options
    copies = loop.phase.entry.copies_with(len(loop.problem.trained), options)
    shared = sum(p.numel() * p.element_size() for p in loop.trunk.parameters() if p.requires_grad)
    parts = {
        "weights": weights,
        "gradients": trained,
        "optimiser": state,
        f"{copies:g} more of the trunk's size for the method": copies * shared,
    }
    return {name: size / 2**20 for name, size in parts.items()}
