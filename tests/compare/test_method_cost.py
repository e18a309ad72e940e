"""Cost of a method: real steps on a copy of the model, the same batches for all."""

import pytest
import torch

from gradaccord.compare.method_cost import loop_of, measure_cost
from gradaccord.compare.specs import Spec
from gradaccord.runs.log import Log
from gradaccord.train.problem import load_problem
from gradaccord.train.run import make_accelerator


@pytest.fixture(scope="module")
def problem(configured):
    return load_problem(configured())


@pytest.mark.parametrize(
    "method", ["sum", "sequential", "dotprod", "sam", "multitask_reptile", "averaged", "stl"]
)
def test_every_feed_sees_two_batches_of_each_task(method, configured, problem, monkeypatch):
    before = [p.detach().clone() for p in problem.model.parameters()]
    seen = {}
    accelerator = make_accelerator(configured())
    with loop_of(Spec(method), configured(), problem, accelerator, rounds=2) as loop:
        drawn = loop.calls
        monkeypatch.setattr(
            loop, "calls", lambda one: seen.setdefault(one.task, []).append(one.rows) or drawn(one)
        )
        while loop.phase.seen < 6:
            loop.take_step(Log(None))
        first = {task: rows[0] for task, rows in seen.items()}
    assert {task: len(rows) for task, rows in seen.items()} == {"film": 2, "bank": 2, "long": 2}
    assert first == _first_batches(configured, problem, accelerator)
    assert all(torch.equal(a, b) for a, b in zip(before, problem.model.parameters(), strict=True))


def _first_batches(configured, problem, accelerator):
    with loop_of(Spec("sum"), configured(), problem, accelerator) as loop:
        return {one.task: one.rows for one in next(loop.phase.step_batches)}


def test_time_and_memory_are_those_of_the_method(configured, problem):
    """SAM takes two gradients on a batch; PCGrad keeps those of all tasks."""
    accelerator = make_accelerator(configured())
    plain, sam = (
        measure_cost(Spec(name), configured(), problem, accelerator, rounds=20)
        for name in ("sequential", "sam")
    )
    assert 1.15 < sam.batch_seconds / plain.batch_seconds < 4  # near 2, on a busy machine
    assert sam.memory_mb > plain.memory_mb
    assert sam.method == "sam"
