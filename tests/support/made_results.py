"""Results, runs and comparisons with chosen figures, without training."""

from pathlib import Path

from gradaccord.compare.processes import Run
from gradaccord.compare.specs import Spec
from gradaccord.compare.summary import summarise
from gradaccord.runs.results import Results
from gradaccord.train.config_file import check_config

CONFIG = check_config({"tasks": {"a": "sst"}})


def made_results(
    dev,
    *,
    test=None,
    trained=None,
    seed=0,
    train_loss=0.5,
    masked_lm=None,
    metric="accuracy",
    references=None,
):
    """dev, test: task -> main metric. masked_lm: text -> loss at the one evaluation.

    references: task -> what `Reference` holds, on dev.
    """
    scores = {task: {metric: value} for task, value in dev.items()}
    names = list(trained or dev)
    return Results.model_validate(
        {
            "finished": "2026-01-01T00:00:00",
            "method": {"name": "sum"},
            "regularize": [],
            "seed": seed,
            "metrics": dict.fromkeys(dev, metric),
            "kinds": dict.fromkeys(dev, "classification"),
            "trained": names,
            "dev": scores,
            "test": {task: {metric: value} for task, value in (test or {}).items()},
            "best_step": 1,
            "last": {"train_loss": dict.fromkeys(names, train_loss)},
            "evaluations": [
                {
                    "step": 1, "gradients": 10, "seconds": 1.0, "scores": scores, "average": 0.0,
                    "masked_lm": masked_lm,
                }
            ],
            "errors": {},
            "notes": {},
            "overlaps": [],
            "references": {task: {"split": "dev", **own} for task, own in (references or {}).items()},
            "cost": {
                "seconds": 2.0, "cpu_seconds": 2.0, "steps": 5, "gradients": 10.0, "memory_mb": 100.0,
            },
        }
    )  # fmt: skip


def made_run(name, seed, score, failure=None):
    """A run of a comparison with a score on its one task, or one that failed."""
    results = None if failure is not None else made_results({"a": score}, seed=seed)
    return Run(Spec.parse(name), seed, Path(), CONFIG, results, failure)


def compared(scores):
    """The comparison of name -> score of each seed, in percent."""
    runs = [made_run(name, seed, s) for name, own in scores.items() for seed, s in enumerate(own)]
    return summarise(runs)
