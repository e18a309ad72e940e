"""Which rows of which tasks a step is made of, for every way in which methods are fed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradaccord.core.did_you_mean import nearest
from gradaccord.data.samplers import (
    Pairs,
    ProportionalTasks,
    RoundRobinTasks,
    SequentialTasks,
    TaskBatches,
    TaskPairs,
    TaskSampler,
    UniformTasks,
    WeightedTasks,
    batch_names,
)
from gradaccord.methods.registry import DEFAULT_SAMPLER, Feed

# The samplers by name, with the options of each.
SAMPLERS: dict[str, tuple[str, ...]] = {
    "round_robin": (),
    "sequential": ("shuffle",),
    "proportional": ("q", "n"),
    "uniform": ("n",),
    "weighted": ("weights", "n"),
}


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
        """Every position and generator."""
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
    sampler = _make_sampler(name or DEFAULT_SAMPLER[feed], options, batches, seed)
    return TaskPairs(sampler, pairs) if feed == "pair" else sampler


def _make_sampler(
    name: str, options: Mapping[str, Any], batches: Mapping[str, TaskBatches[int]], seed: int
) -> TaskSampler:
    given = dict(options)
    sizes = {task: len(own.data) for task, own in batches.items()}
    counts = {task: len(own) for task, own in batches.items()}
    try:
        if name == "round_robin":
            return RoundRobinTasks(counts, **given)
        if name == "sequential":
            return SequentialTasks(counts, seed=seed, **given)
        if name == "proportional":
            return ProportionalTasks(sizes, seed=seed, **given)
        if name == "uniform":
            return UniformTasks(batches, seed=seed, **given)
        if name == "weighted":
            for task in given.get("weights", ()):
                if task not in batches:
                    hint = nearest(str(task), batches)
                    raise ValueError(f"`sampler.weights` names the task {task!r}: {hint}")
            return WeightedTasks(seed=seed, **given)
    except TypeError as error:
        raise ValueError(
            f"The sampler {name!r} was given {', '.join(given) or 'nothing'}: it takes "
            f"{', '.join(SAMPLERS.get(name, ())) or 'no options'}."
        ) from error
    raise ValueError(f"The sampler {name!r} is unknown: {nearest(name, SAMPLERS)}")
