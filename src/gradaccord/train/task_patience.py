"""Early stopping by task: a task whose own score stops improving is no longer trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass
class _Course:
    """The best score of one task so far, where that was, and the evaluations since."""

    best: float = -math.inf
    step: int = 0
    since: int = 0


class TaskPatience:
    """Follows the main scores of the tasks that have a `patience`, at each evaluation on dev."""

    def __init__(self, patience: Mapping[str, int]) -> None:
        """patience: of each task, the evaluations in a row without a better score that end it."""
        self.patience = dict(patience)
        self.courses = {task: _Course() for task in patience}
        self.stopped: dict[str, int] = {}  # task -> the last step that it may have been trained in

    def note(self, step: int, scores: Mapping[str, float]) -> dict[str, str]:
        """Record an evaluation; returns the tasks that end with it, and why."""
        ended = {}
        for task, course in self.courses.items():
            if task in self.stopped:
                continue
            if scores[task] > course.best:
                self.courses[task] = _Course(scores[task], step)
                continue
            course.since += 1
            if course.since >= self.patience[task]:
                self.stopped[task] = step
                ended[task] = (
                    f"its score was not better than that at step {course.step} for "
                    f"{course.since} evaluation{'s' if course.since > 1 else ''}"
                )
        return ended

    def state_dict(self) -> dict[str, Any]:
        """All but the configuration."""
        return {
            "courses": {t: vars(c).copy() for t, c in self.courses.items()},
            "stopped": self.stopped,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.courses = {task: _Course(**course) for task, course in state["courses"].items()}
        self.stopped = dict(state["stopped"])
