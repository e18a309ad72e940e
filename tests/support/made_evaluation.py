"""An evaluation on a file, without a model."""

from __future__ import annotations

from typing import Any

from gradaccord.tasks.error_analysis import Analysis, Confusion, Wrong
from gradaccord.tasks.intervals import Interval
from gradaccord.tasks.references import Reference
from gradaccord.train.file_evaluation import FileEvaluation


def made_evaluation(**changes: Any) -> FileEvaluation:
    confusion = Confusion(("no", "yes"), ((1200, 30), (4, 66)))
    worst = Wrong("7", "a film that is so long that nobody could " * 3, "no", "yes", 2.5)
    given = {
        "model": "runs/a", "task": "film", "kind": "classification", "file": "dev.csv",
        "examples": 1300, "unlabelled": 0, "metric": "accuracy",
        "scores": {"accuracy": Interval(97.4, 96.0, 98.0, 500), "f1": Interval(80.0, 70.0, 90.0, 500)},
        "reference": Reference("dev.csv", 50.0, 94.6),
        "errors": Analysis(1300, 34, (worst,), confusion),
    }  # fmt: skip
    return FileEvaluation(**(given | changes))
