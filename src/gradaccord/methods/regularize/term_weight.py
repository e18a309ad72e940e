"""The weight of a loss term: one for all tasks or one per task, zero outside a window of steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Weight: TypeAlias = float | Mapping[str, float]


def is_on(weight: Weight) -> bool:
    """Whether the term counts for any task."""
    return any(weight.values()) if isinstance(weight, Mapping) else bool(weight)


@dataclass(frozen=True)
class TermWeight:
    """A checked weight that is 0 before step `start` and from step `stop` on."""

    field: str
    weight: Weight
    start: int = 0
    stop: int | None = None
    most: float = float("inf")

    def __post_init__(self) -> None:
        weights = self.weight if isinstance(self.weight, Mapping) else {"": self.weight}
        for task, weight in weights.items():
            if not (0 <= weight <= self.most and weight < float("inf")):
                of = f" for task {task!r}" if task else ""
                most = "" if self.most == float("inf") else f" of at most {self.most:g}"
                raise ValueError(
                    f"`{self.field}` is {weight}{of}: it must be a finite number >= 0{most}."
                )
        if self.start < 0 or (self.stop is not None and self.stop <= self.start):
            raise ValueError(
                f"`start` is {self.start} and `stop` is {self.stop}: give steps 0 <= start < stop."
            )

    def at(self, step: int, task: str | None) -> float:
        """The weight of a task's term in this step."""
        if isinstance(self.weight, Mapping):
            if task is None or task not in self.weight:
                raise ValueError(
                    f"`{self.field}` has no entry for task {task!r}, only for "
                    f"{', '.join(map(repr, self.weight))}: name the task of each loss with `task`."
                )
            weight = self.weight[task]
        else:
            weight = self.weight
        return float(weight) if step >= self.start and (self.stop is None or step < self.stop) else 0.0
