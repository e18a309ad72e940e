"""The test results of a few-shot run, as `results.json` holds them."""

from __future__ import annotations

from typing import ClassVar

from gradaccord.meta.evaluation import Evaluation
from gradaccord.runs.files import RESULTS
from gradaccord.runs.versioned import Versioned


class FewShotResults(Versioned):
    """single: the best checkpoint by validation; curve: the same by inner step, on fewer tasks.

    ensemble: of the best checkpoints, if there are several; it is not a single model.
    """

    FILE: ClassVar[str] = RESULTS

    single: Evaluation
    curve: Evaluation
    ensemble: Evaluation | None = None
    method: str
    seed: int
    iterations: int
    training_seconds: float
    best_iteration: int

    def __str__(self) -> str:
        best = f"best checkpoint by validation: iteration {self.best_iteration}"
        text = f"test  {self.single}, {best}"
        if self.ensemble is None:
            return text
        return f"{text}\ntest  {self.ensemble}: not a single model, {self.ensemble.models} x the cost"
