"""The test results of a few-shot run, as `results.json` holds them."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from gradaccord.meta.evaluation import Evaluation
from gradaccord.runs.files import RESULTS, read_json, write_json


class FewShotResults(BaseModel):
    """single: the best checkpoint by validation; curve: the same by inner step, on fewer tasks.

    ensemble: of the best checkpoints, if there are several; it is not a single model.
    """

    version: int = 1
    single: Evaluation
    curve: Evaluation
    ensemble: Evaluation | None = None
    method: str
    seed: int
    iterations: int
    training_seconds: float
    best_iteration: int

    def save(self, folder: Path) -> None:
        """Write `results.json` into a run's folder."""
        write_json(folder / RESULTS, self.model_dump(exclude_none=True))

    @classmethod
    def read(cls, folder: Path) -> FewShotResults:
        """What `save` wrote."""
        return cls.model_validate(read_json(folder / RESULTS))
