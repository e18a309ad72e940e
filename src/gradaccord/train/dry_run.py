"""A dry run: a batch of every task and a few steps, their memory, how long the run would be."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
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
        log = Log(None)
        times = []
        for _ in range(STEPS):
            began = time.perf_counter()
            loop.take_step(log)
            times.append(time.perf_counter() - began)
        yield from _memory(loop)
        share = loop.phase.step_cost / loop.phase.budget.amount
        steps = round(1 / share)
        yield (
            f"About {duration(min(times) * steps)} of training: {steps:,} steps of {min(times):.2f} s, "
            f"{loop.phase.gradients / STEPS * steps:,.0f} batch gradients (evaluation not counted)."
        )


def _memory(loop: TrainingLoop) -> Iterator[str]:
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
    shown = ", ".join(f"{name} {size / 2**20:,.0f} MB" for name, size in parts.items() if size)
    total = sum(parts.values()) / 2**20
    yield f"Memory: {shown}; {total:,.0f} MB besides activations; peak so far {peak_memory():,.0f} MB."
