"""The training data of a Trainer with several tasks: which batches an epoch takes, and their loader."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from gradaccord.data.samplers import RoundRobinTasks, TaskBatches, TaskPairs, TaskSampler
from gradaccord.integrations.step_sampler import (
    EndlessBatches,
    StepSampler,
    TaskCollator,
    TaskData,
    TaskLoader,
)
from gradaccord.integrations.streams import Stream, StreamBatches, is_stream


def make_step_sampler(trainer: Any, tasks: Mapping[str, Any]) -> tuple[StepSampler, dict[str, Any]]:
    """What every step takes, and the plain values that this depends on.

    trainer: an `AlignedMixin`. tasks: the data set of each task.
    """
    args = trainer.args
    seed = args.seed if args.data_seed is None else args.data_seed
    size = trainer._train_batch_size * args.world_size
    accumulation = args.gradient_accumulation_steps
    paired = trainer.method_factory.feed == "pair"
    _check_streams(trainer, tasks)
    begin = partial(_index_batches, trainer, tasks, size, seed)
    # How long a stream is, is not known: it has data for the whole run.
    steps_of = {
        task: args.max_steps if is_stream(tasks[task]) else math.ceil(len(batches) / accumulation)
        for task, batches in begin().items()
    }
    sizes = {task: None if is_stream(data) else len(data) for task, data in tasks.items()}
    known = {task: n for task, n in sizes.items() if n is not None}
    weights = known if len(known) == len(sizes) else dict.fromkeys(sizes, 1)
    sampler = trainer.task_sampler or trainer.method_factory.sampler(weights, steps_of, seed)
    if paired and not isinstance(sampler, TaskPairs):
        sampler = TaskPairs(sampler)
    for task in sampler.tasks:
        if task not in tasks:
            raise ValueError(
                f"`sampler` draws the task {task!r}, and `train_dataset` has "
                f"{', '.join(tasks)}: use the same names."
            )
    step_sampler = StepSampler(
        sampler,
        begin,
        _steps(sampler, steps_of, given=trainer.task_sampler is not None),
        accumulation=accumulation,
        rank=args.process_index,
        world=args.world_size,
    )
    return step_sampler, {
        "tasks": list(tasks),
        "sizes": list(sizes.values()),
        "batch_size": size,
        "accumulation": accumulation,
        "seed": seed,
        "sampler": _kind(sampler),
    }


def _check_streams(trainer: Any, tasks: Mapping[str, Any]) -> None:
    args = trainer.args
    for task, data in tasks.items():
        if not is_stream(data):
            continue
        what = f"The data set of task {task!r} is a {type(data).__name__} without a length"
        if not hasattr(data, "__iter__"):
            raise TypeError(f"{what}, and cannot be iterated over: give one that can.")
        if _has_own_batches(trainer):
            raise TypeError(f"{what}: sentence-transformers' samplers need one with a length.")
        if args.max_steps <= 0:
            raise ValueError(f"{what}: set `max_steps`, as there is no epoch to count.")
        if args.dataloader_num_workers > 0:
            raise ValueError(
                f"{what}, and `dataloader_num_workers` is {args.dataloader_num_workers}: set it to 0, "
                "as every worker would read the whole stream."
            )


def _kind(sampler: TaskSampler) -> str:
    if isinstance(sampler, TaskPairs):
        return f"TaskPairs({_kind(sampler.sampler)}, {sampler.pairs!r})"
    return type(sampler).__name__


def _steps(sampler: TaskSampler, steps_of: Mapping[str, int], *, given: bool) -> int:
    """Optimiser steps of an epoch: the sampler's own, or as many as there is data for."""
    own = sampler.sampler if isinstance(sampler, TaskPairs) else sampler
    if isinstance(own, RoundRobinTasks) or (given and hasattr(own, "__len__")):
        return len(own)
    at_once = 2 if own is not sampler else min(getattr(own, "n", 1), len(own.tasks))
    return max(1, math.ceil(sum(steps_of[task] for task in sampler.tasks) / at_once))


def _index_batches(trainer: Any, tasks: Mapping[str, Any], size: int, seed: int) -> dict[str, Any]:
    """Every task's endless batches of indices, from their beginning."""
    args = trainer.args
    drop_last = args.dataloader_drop_last
    if _has_own_batches(trainer):
        make = partial(
            trainer.get_batch_sampler,
            batch_size=size,
            drop_last=drop_last,
            valid_label_columns=getattr(trainer.data_collator, "valid_label_columns", None),
        )
        return {
            task: EndlessBatches(
                make(data, generator=torch.Generator().manual_seed(seed + i), seed=seed + i)
            )
            for i, (task, data) in enumerate(tasks.items())
        }
    strategy = getattr(args, "train_sampling_strategy", "random")
    if strategy not in ("random", "sequential"):
        raise ValueError(
            f"`train_sampling_strategy` is {strategy!r}: with several tasks use 'random' or "
            "'sequential'."
        )
    shuffle = strategy == "random"
    return {
        task: StreamBatches(size)
        if is_stream(data)
        else TaskBatches(range(len(data)), size, shuffle=shuffle, drop_last=drop_last, seed=seed + i)
        for i, (task, data) in enumerate(tasks.items())
    }


def make_loader(
    trainer: Any, tasks: Mapping[str, Any], collators: Mapping[str, Any], sampler: StepSampler
) -> TaskLoader:
    """A loader of micro-batches, each a list with one `Part` for every task of the step.

    collators: of the tasks that have their own.
    """
    read, collate = {}, {}
    for task, data in tasks.items():
        collator = collators.get(task, trainer.data_collator)
        read[task], collate[task] = _columns(trainer, task, data, collator)
        if is_stream(data):
            read[task] = Stream(task, read[task], sampler.steps * trainer._train_batch_size)
    args = trainer.args
    return TaskLoader(
        TaskData(read),
        batch_sampler=sampler,
        collate_fn=TaskCollator(collate),
        num_workers=args.dataloader_num_workers,
        pin_memory=args.dataloader_pin_memory and torch.accelerator.is_available(),
        persistent_workers=args.dataloader_persistent_workers,
        prefetch_factor=args.dataloader_prefetch_factor,
        generator=torch.Generator().manual_seed(args.seed),  # the global one is left alone
    )


def _columns(trainer: Any, task: str, data: Any, collator: Any) -> tuple[Any, Any]:
    """The data and the collator of a task, without the columns that the model does not take."""
    if _has_own_batches(trainer):
        return data, collator
    description = f"training ({task})"
    if getattr(data, "column_names", None) and hasattr(data, "remove_columns"):
        return trainer._remove_unused_columns(data, description=description), collator
    return data, trainer._get_collator_with_removed_columns(collator, description=description)


def _has_own_batches(trainer: Any) -> bool:
    """sentence-transformers: no duplicates in a batch, batches by label, its own columns."""
    return hasattr(trainer, "get_batch_sampler")
