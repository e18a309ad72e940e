"""Processes draw the same batches and share them."""

from __future__ import annotations

import pytest

from gradaccord.data.samplers import (
    RoundRobinTasks,
    TaskBatches,
)
from gradaccord.integrations.step_sampler import StepSampler

pytestmark = pytest.mark.usefixtures("one_thread")


def test_processes_share_every_batch_without_overlap():
    """Equal weights cannot show it: the mean over copies of a batch is the batch's own."""

    def drawn(rank, world):
        sampler = StepSampler(
            RoundRobinTasks({"a": 6, "b": 6}),
            lambda: {task: TaskBatches(range(21), 4, seed=i) for i, task in enumerate("ab")},
            steps=9,
            accumulation=2,
            rank=rank,
            world=world,
        )
        return [(draw.name, draw.examples) for micro in sampler for draw in micro]

    # 21 examples in batches of 4 leave one, which two processes cannot share: it is left out.
    whole = [part for part in drawn(0, 1) if len(part[1]) > 1]
    for (name, one), (_, first), (_, second) in zip(whole, drawn(0, 2), drawn(1, 2), strict=False):
        assert name in "ab"
        assert not set(first) & set(second)
        assert sorted(first + second) == sorted(one)
