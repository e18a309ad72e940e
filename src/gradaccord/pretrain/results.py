"""The results of pretraining, as `results.json` holds them, and its progress, for a screen."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import fmean
from typing import ClassVar

from pydantic import BaseModel

from gradaccord.runs.files import RESULTS
from gradaccord.runs.versioned import Versioned

Losses = dict[str, float]  # language -> nats per masked token


class HeldOut(BaseModel):
    """The losses after a step. train: running means over the last steps."""

    event: str = "evaluation"
    step: int
    tokens: int  # seen so far
    held_out: Losses
    train: Losses

    @property
    def mean(self) -> float:
        """Mean held-out loss over languages, each counted equally."""
        return fmean(self.held_out.values())


class PretrainResults(Versioned):
    """The last evaluation is of the saved model. unigrams: held-out loss of a unigram model."""

    FILE: ClassVar[str] = RESULTS

    finished: str
    model: str
    weights: int
    pieces: int  # of the vocabulary
    seed: int
    steps: int
    tokens: int  # seen, special ones included
    seconds: float  # of training steps
    texts: dict[str, int]  # trained on
    left_out: dict[str, int]
    unigrams: Losses
    evaluations: list[HeldOut]
    memory_mb: float

    @property
    def last(self) -> HeldOut:
        """The losses of the saved model."""
        return self.evaluations[-1]

    @property
    def tokens_per_second(self) -> float:
        """The speed of the training steps."""
        return self.tokens / self.seconds if self.seconds else math.nan


@dataclass
class PretrainProgress:
    """The progress of a run."""

    step: int = 0
    steps: int = 0
    seconds_left: float = math.nan
    tokens_per_second: float = math.nan
    losses: Losses = field(default_factory=dict)  # running means
    last: HeldOut | None = None
    doing: str = ""  # what is done instead of steps
    done: float = 0.0
    total: float = 0.0  # 0: unknown

    @property
    def share(self) -> float:
        """The share of the steps that is done."""
        return self.step / self.steps if self.steps else 0.0
