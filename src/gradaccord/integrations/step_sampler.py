"""Which examples of which tasks each step takes, as a batch sampler that any DataLoader can run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from torch.utils.data import DataLoader, Dataset

from gradaccord.data.samplers import TaskSampler, batch_names


class Draw(NamedTuple):
    """One batch to be read: the name under which its loss is given, its task, its examples.

    total: examples over all processes.
    """

    name: str
    task: str
    examples: list[int]
    total: int


class Part(NamedTuple):
    """One batch as read and collated. examples: how many it has over all processes."""

    name: str
    task: str
    inputs: Any
    examples: int


class StepSampler:
    """The micro-batches of a run, epoch by epoch: `accumulation` of them form an optimiser step.

    All draws come from seeds, so that any epoch can be started again: going to its start and skipping
    batches only draws indices and reads no data. Every process draws the same batches and keeps its
    own share of each.

    sampler: which tasks a step takes. batches: restarts the endless index batches of every task.
    steps: optimiser steps of an epoch.
    """

    def __init__(
        self,
        sampler: TaskSampler,
        batches: Callable[[], Mapping[str, Iterator[list[int]]]],
        steps: int,
        *,
        accumulation: int = 1,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.first = copy.deepcopy(sampler)
        self.batches = batches
        self.steps = steps
        self.accumulation = accumulation
        self.rank, self.world = rank, world
        self.epoch = 0
        self._rewind()

    def __len__(self) -> int:
        return self.steps * self.accumulation

    def set_epoch(self, epoch: int) -> None:
        """Choose the next epoch; a Trainer calls this."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[Draw]]:
        start = self.epoch * self.steps
        if self.at != start:
            self._rewind()
            while self.at < start:
                self._step()
        self.epoch += 1
        for _ in range(self.steps):
            yield from self._step()

    def _rewind(self) -> None:
        self.sampler = copy.deepcopy(self.first)
        self.streams = self.batches()
        self.at = 0  # optimiser steps drawn

    def _step(self) -> list[list[Draw]]:
        tasks = next(self.sampler)
        self.at += 1
        # Name by name, so that the micro-batches of each join to what one large batch would hold.
        drawn = [
            [self._draw(name, task) for _ in range(self.accumulation)]
            for name, task in zip(batch_names(tasks), tasks, strict=True)
        ]
        return [list(parts) for parts in zip(*drawn, strict=True)]

    def _draw(self, name: str, task: str) -> Draw:
        while True:
            index = next(self.streams[task])
            if len(index) >= self.world:  # the rest of a pass may be too small for all processes
                return Draw(name, task, index[self.rank :: self.world], len(index))


class TaskData(Dataset[Any]):
    """The data sets of all tasks, read by `Draw`."""

    def __init__(self, datasets: Mapping[str, Any]) -> None:
        self.datasets = dict(datasets)

    def __len__(self) -> int:
        return sum(len(data) for data in self.datasets.values())

    def __getitem__(self, draw: Draw) -> tuple[Draw, list[Any]]:
        data = self.datasets[draw.task]
        if hasattr(data, "__getitems__"):
            return draw, list(data.__getitems__(draw.examples))
        return draw, [data[i] for i in draw.examples]


class TaskCollator:
    """Makes a micro-batch's parts, each by the collator of its task."""

    def __init__(self, collators: Mapping[str, Callable[[list[Any]], Any]]) -> None:
        self.collators = dict(collators)

    def __call__(self, drawn: list[tuple[Draw, list[Any]]]) -> list[Part]:
        """The parts of a micro-batch."""
        return [
            Part(draw.name, draw.task, self.collators[draw.task](examples), draw.total)
            for draw, examples in drawn
        ]


class TaskLoader(DataLoader[Any]):
    """A DataLoader over a `StepSampler`."""

    def set_epoch(self, epoch: int) -> None:
        """Choose the next epoch."""
        sampler: Any = self.batch_sampler
        sampler.set_epoch(epoch)


class EndlessBatches(Iterator[list[int]]):
    """Endless passes over any batch sampler."""

    def __init__(self, batch_sampler: Any) -> None:
        self.batch_sampler = batch_sampler
        self.epoch = -1
        self.current: Iterator[list[int]] = iter(())

    def __len__(self) -> int:
        return len(self.batch_sampler)

    def __next__(self) -> list[int]:
        for index in self.current:
            return list(index)
        self.epoch += 1
        if hasattr(self.batch_sampler, "set_epoch"):
            self.batch_sampler.set_epoch(self.epoch)
        self.current = iter(self.batch_sampler)
        for index in self.current:
            return list(index)
        raise ValueError(
            f"The {type(self.batch_sampler).__name__} gives no batch: give more data, a smaller batch "
            "size or dataloader_drop_last=False."
        )
