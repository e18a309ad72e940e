"""What a model without skill scores on a split, and whether a model is any better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradaccord.tasks.task import Task, main_score

ONE_CLASS = "predicts one class"
NO_BETTER = "within noise of majority"
BELOW = "below majority"
ERRORS = 2.0  # standard errors that are called noise


@dataclass(frozen=True)
class Reference:
    """The main metric of two predictors without skill, in percent, and how a model compares.

    chance: guessing, every answer as likely as another (`Task.chance` of the kind says what that is).
    majority: always the same answer (`Task.constant`).
    mark: `ONE_CLASS`, `NO_BETTER`, `BELOW`, or empty if the model is better than that.
    """

    split: str
    chance: float
    majority: float
    mark: str = ""

    @property
    def text(self) -> str:
        """Chance and majority in a few words."""
        return f"chance {self.chance:.2f}, majority {self.majority:.2f}" + (
            f"; {self.mark}" if self.mark else ""
        )


def reference(
    task: Task[Any],
    split: str,
    examples: Sequence[Any],
    predictions: Sequence[Any],
    scores: Mapping[str, float],
) -> Reference:
    """The `Reference` of a model's predictions on a split. scores: theirs, by `Task.score`."""
    main = task.main_metric
    chance = main_score(task.chance(examples, predictions), main)
    majority = main_score(task.score(examples, task.constant(examples, predictions)), main)
    reached = main_score(scores, main)
    gap = reached - majority
    gold, _ = task.labelled(examples, predictions)
    noise = ERRORS * max(task.standard_error(s, len(gold)) for s in (majority, reached))
    if task.predicts_one_class(examples, predictions):
        mark = ONE_CLASS
    elif gap > noise:
        mark = ""
    else:
        mark = NO_BETTER if gap >= -noise else BELOW
    return Reference(split, chance, majority, mark)
