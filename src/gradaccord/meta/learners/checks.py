"""Checks of what a meta-learner is given: options, model, tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from gradaccord.core.sharding import is_sharded
from gradaccord.meta.episodes.task_batch import Task, TaskBatch


def rate_of(field: str, value: object) -> float:
    """The value, if it is a positive finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise ValueError(f"`{field}` is {value!r}: use a positive number such as 0.1.")
    return float(value)


def check_model(model: Any) -> None:
    """Raise unless the inner loop can work on this model."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"`model` must be a torch.nn.Module, got {type(model).__name__}.")
    for name, parameter in model.named_parameters():
        if is_sharded(parameter):
            raise ValueError(
                "`model` is sharded by fully_shard, and the inner loop needs whole weights: use "
                "DistributedDataParallel."
            )
        if parameter.is_complex() and parameter.requires_grad:
            raise ValueError(
                f"`model` has a complex weight, {name!r}, and inner loops support only real ones: hold "
                "its real and imaginary parts as two weights."
            )
        if parameter.is_meta:
            raise ValueError(
                f"The weight {name!r} of `model` is on the meta device and has no values: load or "
                "initialise the model first."
            )


def check_tasks(tasks: TaskBatch | Sequence[Task]) -> list[Task]:
    """The tasks of a batch, each checked."""
    if not isinstance(tasks, TaskBatch | list | tuple):
        raise TypeError(f"`tasks` must be a TaskBatch or a list of Tasks, got {type(tasks).__name__}.")
    listed = list(tasks)
    if not listed:
        raise ValueError("`tasks` holds no task: give at least one.")
    for place, task in enumerate(listed):
        check_task(task, place)
    return listed


def check_task(task: object, place: int) -> None:
    """Raise unless this is a task that can be learned from."""
    if not isinstance(task, Task):
        raise TypeError(f"Task {place} is a {type(task).__name__}: give a gradaccord.meta.Task.")
    for name in ("support", "query"):
        inputs, labels = getattr(task, name), getattr(task, f"{name}_labels")
        if len(inputs) != len(labels):
            raise ValueError(
                f"Task {place} has {len(inputs)} {name} inputs and {len(labels)} labels: "
                "give one label per input."
            )
        if inputs.dtype == torch.uint8:
            raise ValueError(
                f"The {name} inputs of task {place} are bytes: make them floats, such as "
                "images.float() / 255."
            )
    if len(task.support) == 0:
        raise ValueError(f"Task {place} has no support examples: give at least one shot.")
