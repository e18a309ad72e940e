"""The equal budget of all runs of a comparison: epochs, batch gradients or processor seconds."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict

from gradaccord.train.config import Config, TrainConfig
from gradaccord.train.phase import EPOCHS, batches_of
from gradaccord.train.problem import Problem

BudgetKind = Literal["epochs", "gradients", "seconds"]
BUDGET_KINDS: tuple[BudgetKind, ...] = get_args(BudgetKind)

# A sentence for each, after "Equal".
_WORDS: dict[BudgetKind, str] = {
    "epochs": "epochs, as papers compare: every run sees the same number of batches ({amount}), and "
    "what a method computes on a batch besides its gradient is free.",
    "gradients": "gradients: every run spends {amount}; a method that takes more of them on a batch "
    "sees fewer batches.",
    "seconds": "time: every run trains for {amount}, evaluation and probes not counted; a method with "
    "slow steps takes fewer of them.",
}


class EqualBudget(BaseModel):
    """The length of every run, and what it is counted in."""

    model_config = ConfigDict(frozen=True)

    kind: BudgetKind
    amount: float

    @classmethod
    def of(cls, train: TrainConfig) -> EqualBudget | None:
        """The budget of a run of a comparison; None where it has none of the three."""
        for kind in BUDGET_KINDS:
            amount = getattr(train, kind)
            if amount is not None:
                return cls(kind=kind, amount=amount)
        return None

    def given_to(self, train: TrainConfig) -> TrainConfig:
        """The same settings with this length."""
        update: dict[str, Any] = dict.fromkeys(("steps", *BUDGET_KINDS))
        update[self.kind] = int(self.amount) if self.kind == "gradients" else self.amount
        return train.model_copy(update=update)

    @property
    def text(self) -> str:
        """The amount with its unit."""
        unit = {
            "epochs": "passes over the training data",
            "gradients": "batch gradients",
            "seconds": "processor seconds of training",
        }[self.kind]
        return f"{round(self.amount, 3):,g} {unit}"

    @property
    def sentence(self) -> str:
        """What is equal, in plain words."""
        return "Equal " + _WORDS[self.kind].format(amount=self.text)


def budget_of(config: Config, problem: Problem, kind: BudgetKind = "gradients") -> EqualBudget:
    """The budget of a kind that is as long as the configuration says.

    Counted for plain multi-task training: one gradient per batch, and one batch of every task per step.
    Seconds depend on the machine, so they are given as `train.seconds` and not converted.
    """
    train = config.train
    if kind not in BUDGET_KINDS:
        raise ValueError(f"`budget` is {kind!r}: it must be one of {', '.join(BUDGET_KINDS)}.")
    if kind == "seconds":
        if train.seconds is None:
            raise ValueError(
                "`budget` is 'seconds' and `train.seconds` is not given: set it in place of "
                "`train.epochs`, `train.steps` or `train.gradients`."
            )
        return EqualBudget(kind=kind, amount=train.seconds)
    if train.seconds is not None:
        raise ValueError(
            f"`train.seconds` is given and `budget` is {kind!r}: choose the budget 'seconds', or give "
            "`train.epochs` or `train.gradients` instead."
        )
    sizes = problem.batch_sizes
    epoch = sum(
        len(batches_of(problem.prepared[name], sizes.get(name, train.batch_size), 0))
        for name in problem.trained
    )
    batches: float = (train.epochs or EPOCHS) * epoch
    if train.gradients is not None:
        batches = train.gradients
    elif train.steps is not None:
        batches = train.steps * len(problem.trained)
    if kind == "epochs":
        return EqualBudget(kind=kind, amount=batches / epoch)
    return EqualBudget(kind=kind, amount=math.ceil(batches - 1e-9))
