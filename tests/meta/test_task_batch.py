"""A batch of tasks: one by one, in parts, and cast."""

from __future__ import annotations

import torch
from few_shot_toys import batch

from gradaccord.meta import Task, TaskBatch

FIELDS = ("support", "support_labels", "query", "query_labels")


def test_a_batch_is_its_tasks() -> None:
    tasks = batch(tasks=3)
    assert len(tasks) == len(list(tasks)) == 3
    for place, task in enumerate(tasks):
        assert isinstance(task, Task)
        for name in FIELDS:
            assert torch.equal(getattr(task, name), getattr(tasks, name)[place])


def test_a_part_is_a_view() -> None:
    tasks = batch(tasks=4)
    part = tasks.part(slice(1, 3))
    assert isinstance(part, TaskBatch)
    assert len(part) == 2
    part.support.zero_()
    assert [bool(task.support.any()) for task in tasks] == [True, False, False, True]


def test_class_numbers_stay_whole_when_inputs_are_cast() -> None:
    cast = batch().to(torch.float32)
    assert [getattr(cast, name).dtype for name in FIELDS] == [torch.float32, torch.int64] * 2
    regression = TaskBatch(*(torch.ones(2, 3, 1, dtype=torch.float64) for _ in FIELDS))
    assert regression.to(torch.float32).query_labels.dtype == torch.float32
    assert batch().to("meta").query_labels.device.type == "meta"
