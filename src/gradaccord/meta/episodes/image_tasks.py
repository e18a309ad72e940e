"""N-way K-shot tasks from labelled images or features: endless for training, fixed for evaluation.

    episodes = Episodes(omniglot.train, ways=5, shots=1, queries=15, tasks=4)
    for tasks in episodes: ...                          # TaskBatch, support [4, 5, 1, 28, 28]
    for tasks in FixedTasks(omniglot.test, ways=5, shots=1, count=600): ...

Only index tensors are drawn, for all tasks of a batch at once; images leave their uint8 tensor by one
indexing each. Class c of a task is the c-th of a random ordered draw, so the map from classes to
labels is shuffled in every task; examples are shuffled inside a task too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch

from gradaccord.core.checks import whole_number
from gradaccord.data.images.class_folders import ImageClasses
from gradaccord.meta.episodes.task_batch import TaskBatch

Labelled = ImageClasses | tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Shape:
    """What a task is made of: ways classes, shots support and queries query examples of each."""

    ways: int
    shots: int
    queries: int

    def __post_init__(self) -> None:
        for field, least in (("ways", 2), ("shots", 1), ("queries", 1)):
            whole_number(field, getattr(self, field), least)


class Examples:
    """Inputs grouped by class, from which tasks are drawn by index.

    data: an `ImageClasses`, or a pair (inputs [n, ...], labels [n]) in any order. uint8 inputs are
    scaled to 0..1, features are taken as they are. dtype: of the tasks' inputs.
    """

    def __init__(self, data: Labelled, shape: Shape, dtype: torch.dtype = torch.float32) -> None:
        inputs, labels = (data.images, data.labels) if isinstance(data, ImageClasses) else data
        if len(inputs) != len(labels) or labels.dim() != 1:
            raise ValueError(
                f"{len(inputs)} inputs and labels of shape {list(labels.shape)} do not fit: give one "
                "class number per input."
            )
        self.shape, self.dtype = shape, dtype
        order = labels.argsort(stable=True)
        in_order = bool((order == torch.arange(len(order), device=order.device)).all())
        self.inputs = inputs if in_order else inputs[order]
        counts = torch.unique(labels, return_counts=True)[1].cpu()
        self.starts = counts.cumsum(0) - counts
        needed = shape.shots + shape.queries
        if len(counts) < shape.ways:
            raise ValueError(
                f"`ways` is {shape.ways}, but there are only {len(counts)} classes: lower it or give "
                "more classes."
            )
        if len(counts) and int(counts.min()) < needed:
            place = int(counts.argmin())
            name = f" ({data.names[place]!r})" if isinstance(data, ImageClasses) else ""
            raise ValueError(
                f"Class {place}{name} has {int(counts[place])} examples, fewer than {shape.shots} "
                f"shots + {shape.queries} queries = {needed}: lower these or leave the class out."
            )
        # Places beyond a class's examples are never drawn.
        self.absent = torch.arange(int(counts.max()), device="cpu") >= counts[:, None]

    def draw(self, tasks: int, generator: torch.Generator) -> torch.Tensor:
        """Row numbers of the inputs [tasks, ways, shots + queries]: random classes, random examples."""
        s = self.shape
        keys = torch.rand(tasks, len(self.starts), generator=generator, device="cpu")
        classes = keys.topk(s.ways, dim=1).indices
        keys = torch.rand(tasks, s.ways, self.absent.shape[1], generator=generator, device="cpu")
        keys = keys.masked_fill_(self.absent[classes], -1.0)
        examples = keys.topk(s.shots + s.queries, dim=2).indices
        rows: torch.Tensor = self.starts[classes][:, :, None] + examples
        return rows

    def orders(self, tasks: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Random orders of the support and of the query examples of each task."""
        s = self.shape
        support = torch.rand(tasks, s.ways * s.shots, generator=generator, device="cpu")
        query = torch.rand(tasks, s.ways * s.queries, generator=generator, device="cpu")
        return support.argsort(1), query.argsort(1)

    def indices(self, tasks: int, generator: torch.Generator) -> TaskBatch:
        """A batch of tasks with row numbers instead of inputs."""
        s = self.shape
        rows = self.draw(tasks, generator)
        labels = torch.arange(s.ways, device="cpu")[None, :, None].expand_as(rows)
        parts = []
        for part, order in zip(
            (slice(None, s.shots), slice(s.shots, None)), self.orders(tasks, generator), strict=True
        ):
            parts += [rows[:, :, part].flatten(1).gather(1, order)]
            parts += [labels[:, :, part].flatten(1).gather(1, order)]
        return TaskBatch(*parts)

    def take(self, indices: TaskBatch) -> TaskBatch:
        """The tasks themselves, on the device of the inputs."""
        device = self.inputs.device

        def look_up(rows: torch.Tensor) -> torch.Tensor:
            chosen = self.inputs[rows.to(device)]
            if chosen.dtype == torch.uint8:
                return chosen.to(self.dtype).div_(255)
            return chosen.to(self.dtype)

        return TaskBatch(
            look_up(indices.support),
            indices.support_labels.to(device),
            look_up(indices.query),
            indices.query_labels.to(device),
        )


class Episodes(Iterator[TaskBatch]):
    """An endless iterator of task batches, which can be resumed exactly where it stopped.

    data: `ImageClasses`, or a pair (inputs, labels).
    ways, shots, queries: of each task.
    tasks: in a batch, over all processes.
    seed: of the random draws.
    rank, world_size: with several processes each gets its share of the same batch (give all the same
        seed); `tasks` must divide evenly.
    """

    def __init__(
        self,
        data: Labelled,
        *,
        ways: int = 5,
        shots: int = 1,
        queries: int = 15,
        tasks: int = 4,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.examples = Examples(data, Shape(ways, shots, queries), dtype)
        _check_split(tasks, rank, world_size)
        self.tasks, self.rank, self.world_size = tasks, rank, world_size
        self.generator = torch.Generator().manual_seed(seed)
        self.step = 0  # batches drawn so far

    def __next__(self) -> TaskBatch:
        # Every process draws the whole batch, so that all stay in step whatever their number.
        indices = self.examples.indices(self.tasks, self.generator)
        self.step += 1
        return self.examples.take(indices.part(_share(self.tasks, self.rank, self.world_size)))

    def state_dict(self) -> dict[str, Any]:
        """Position and generator."""
        shape = self.examples.shape
        return {
            "step": self.step,
            "generator": self.generator.get_state(),
            "drawn_from": [shape.ways, shape.shots, shape.queries, self.tasks, *self._size()],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved position, also in a fresh instance over the same data."""
        here = self.state_dict()["drawn_from"]
        if list(state["drawn_from"]) != here:
            raise ValueError(
                f"The state was saved with (ways, shots, queries, tasks, classes, examples) = "
                f"{tuple(state['drawn_from'])}, and here they are {tuple(here)}: the tasks that "
                "follow would not be the same."
            )
        self.step = int(state["step"])
        self.generator.set_state(state["generator"].cpu())

    def _size(self) -> tuple[int, int]:
        return len(self.examples.starts), len(self.examples.inputs)


class FixedTasks:
    """A fixed number of tasks, the same at every iteration: for validation and test.

    count: number of tasks (600 in the literature).
    seed: which tasks; the same seed and data give the same tasks on every machine with this version of
        torch.
    batch: tasks per TaskBatch.
    rank, world_size: each process goes through its share; `evaluate` joins the results.
    """

    def __init__(
        self,
        data: Labelled,
        *,
        ways: int = 5,
        shots: int = 1,
        queries: int = 15,
        count: int = 600,
        seed: int = 0,
        batch: int = 20,
        dtype: torch.dtype = torch.float32,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        whole_number("count", count)
        whole_number("batch", batch)
        _check_split(world_size, rank, world_size)
        self.examples = Examples(data, Shape(ways, shots, queries), dtype)
        self.count, self.batch, self.rank, self.world_size = count, batch, rank, world_size
        # In batches of one size, so that another `batch` or `count` gives the same first tasks.
        generator = torch.Generator().manual_seed(seed)
        drawn = [self.examples.indices(1, generator) for _ in range(count)]
        self.indices = TaskBatch(
            *(torch.cat([getattr(one, field.name) for one in drawn]) for field in fields(TaskBatch))
        )

    def __len__(self) -> int:
        """The number of tasks, over all processes."""
        return self.count

    def __iter__(self) -> Iterator[TaskBatch]:
        mine = range(self.count)[_share(self.count, self.rank, self.world_size)]
        for start in range(mine.start, mine.stop, self.batch):
            yield self.examples.take(
                self.indices.part(slice(start, min(start + self.batch, mine.stop)))
            )


def _check_split(tasks: int, rank: int, world_size: int) -> None:
    whole_number("tasks", tasks)
    if not 0 <= rank < world_size:
        raise ValueError(
            f"`rank` is {rank}: with world_size={world_size} it must be 0 to {world_size - 1}."
        )
    if tasks % world_size:
        raise ValueError(
            f"`tasks` is {tasks}, which {world_size} processes cannot share evenly: take a multiple."
        )


def _share(count: int, rank: int, world_size: int) -> slice:
    """This process's part of `count` items in a row."""
    return slice(count * rank // world_size, count * (rank + 1) // world_size)
