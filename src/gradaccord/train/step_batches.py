"""Which rows of which tasks a step is made of, for every way in which methods are fed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradaccord.core.did_you_mean import nearest
from gradaccord.data.samplers import (
    Pairs,
    TaskBatches,
    TaskPairs,
    TaskSampler,
    batch_names,
    check_sampler,
    sampler_of,
)
from gradaccord.methods.registry import DEFAULT_SAMPLER, Feed


@dataclass(frozen=True)
class StepBatch:
    """One batch of a step: its task, and the rows of the task's training split."""

    name: str  # unique in the step
    task: str
    rows: tuple[int, ...]


class StepBatches:
    """Draws the batches of one step after another; resumes exactly."""

    def __init__(
        self, sampler: TaskSampler, batches: Mapping[str, TaskBatches[int]], feed: Feed, block: int = 1
    ) -> None:
        self.sampler = sampler
        self.batches = dict(batches)
        self.feed = feed
        self.block = block  # steps that a task keeps its turn for, in blocks
        self.turn = 0
        self.pending: list[str] = []  # drawn by the sampler and not yet given, one at a time

    def __next__(self) -> list[StepBatch]:
        if self.feed in ("all", "pair"):
            tasks = next(self.sampler)
            return [self._draw(*one) for one in zip(batch_names(tasks), tasks, strict=True)]
        if self.feed == "one":
            task = self._next_task()
            return [self._draw(task, task)]
        tasks = tuple(self.batches)
        task = tasks[self.turn // self.block % len(tasks)]
        self.turn += 1
        return [self._draw(task, task)]

    def _next_task(self) -> str:
        """All that the sampler draws is given, also where it draws more than a step takes."""
        if not self.pending:
            self.pending = list(next(self.sampler))
        return self.pending.pop(0)

    def _draw(self, name: str, task: str) -> StepBatch:
        return StepBatch(name, task, tuple(next(self.batches[task])))

    def state_dict(self) -> dict[str, Any]:
        """The positions and generators of sampler and batches."""
        return {
            "turn": self.turn,
            "pending": list(self.pending),
            "sampler": self.sampler.state_dict(),
            "batches": {task: batches.state_dict() for task, batches in self.batches.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved position."""
        self.turn = int(state["turn"])
        self.pending = list(state["pending"])
        self.sampler.load_state_dict(state["sampler"])
        for task, batches in self.batches.items():
            batches.load_state_dict(state["batches"][task])


def make_sampler(
    name: str | None,
    options: Mapping[str, Any],
    feed: Feed,
    batches: Mapping[str, TaskBatches[int]],
    seed: int,
    pairs: Pairs | None = None,
) -> TaskSampler:
    """The sampler of a configuration; without a name the one that suits how the method is fed."""
    name = name or DEFAULT_SAMPLER[feed]
    given = check_sampler(name, options)
    for task in given.get("weights", ()):
        if task not in batches:
            raise ValueError(f"`sampler.weights` names the task {task!r}: {nearest(task, batches)}")
    sizes = {task: len(own.data) for task, own in batches.items()}
    counts = {task: len(own) for task, own in batches.items()}
    sampler = sampler_of(name, sizes, counts, seed=seed, **given)
    return TaskPairs(sampler, pairs) if feed == "pair" else sampler
