"""Single-task learning (`stl`): one model for each task, their results joined as those of one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gradaccord.methods.registry import SINGLE_TASK
from gradaccord.runs.files import CONFIG, RunFolderError, folder_name
from gradaccord.runs.lock import locked_by_main
from gradaccord.runs.results import Cost, Measured, MethodUsed, Results
from gradaccord.train.config import Config

# Costs of newer files, which may be absent.
SUMMED = ("batches", "training_seconds", "evaluation_seconds", "probe_seconds")

# Of a task alone: there is none to share a head with, nor to be weighed against.
ALONE = {"shared_head": None, "weight": 1.0}

# What is kept task by task.
MERGED = (
    *("metrics", "kinds", "dev", "test", "errors", "notes", "references", "dev_references"),
    *("cards", "stopped"),
)


def train_single_tasks(
    config: Config, folder: Path, train: Callable[..., Results], accelerator: Any, **options: Any
) -> Results:
    """A run per task below `folder`, one after another, each with its share of the budget.

    train: trains one model, as `train.run.train_model` does; the options are for it.
    """
    if config.method.options:
        raise ValueError(
            f"Method {SINGLE_TASK!r} takes no options, got {', '.join(config.method.options)}."
        )
    resume = bool(options.pop("resume", False))
    say = options.get("say", lambda sentence: None)
    with locked_by_main(folder, accelerator, partial(_finished, folder, resume)) as finished:
        if finished is not None:
            say(f"{folder} holds a finished run: nothing to do.")
            return finished
        trained = [name for name, task in config.tasks.items() if not task.evaluate_only]
        parts = {}
        for name in trained:
            say(f"Training {name} alone.")
            own = alone(config, name, len(trained))
            place = folder / folder_name(name)
            begun = resume and (place / CONFIG).exists()
            parts[name] = train(own, place, resume=begun, **options)
        results = _joined(config, parts)
        if accelerator.is_main_process:
            results.write(folder)
    return results


def _finished(folder: Path, resume: bool) -> Results | None:
    """The results, if there are any; an error if they would be overwritten."""
    if not Results.exists(folder):
        return None
    if not resume:
        raise RunFolderError(
            f"The run folder {folder} holds a finished run: choose another --out, or --resume."
        )
    return Results.read(folder)


def alone(config: Config, task: str, tasks: int) -> Config:
    """The configuration of one task's own run: its share of gradients or seconds, and all the steps.

    A joint step takes a batch of every task, a step of a task alone takes one batch.
    """
    unseen = {
        name: entry
        for name, entry in config.tasks.items()
        if entry.evaluate_only and entry.source in (None, task)
    }
    length = config.train
    update: dict[str, Any] = {"warm_start": None}
    if length.gradients is not None:
        update["gradients"] = max(length.gradients // tasks, 1)
    if length.seconds is not None:
        update["seconds"] = length.seconds / tasks
    return config.with_class().model_copy(
        update={
            "tasks": {task: config.tasks[task].model_copy(update=ALONE), **unseen},
            "train": length.model_copy(update=update),
        }
    )


def _joined(config: Config, parts: dict[str, Results]) -> Results:
    """The results of all tasks as those of one run. Each task's come from its own model."""
    runs = list(parts.values())

    def merged(field: str) -> dict[str, Any]:
        """Task by task; a task that was not trained on comes from the first model that can."""
        found: dict[str, Any] = {}
        for name, own in parts.items():
            for task, value in getattr(own, field).items():
                if task == name or task not in found:
                    found[task] = value
        return found

    costs = [run.cost for run in runs]
    resumed = any(cost.cpu_seconds is None for cost in costs)
    return Results(
        finished=runs[0].finished,
        method=MethodUsed(name=SINGLE_TASK),
        regularize=runs[0].regularize,
        seed=config.train.seed,
        trained=list(parts),
        best_step=max(run.best_step for run in runs),
        last=Measured(train_loss={k: v for run in runs for k, v in run.last.train_loss.items()}),
        evaluations=[],
        overlaps=[overlap for run in runs for overlap in run.overlaps],
        cost=Cost(
            seconds=sum(cost.seconds for cost in costs),
            cpu_seconds=None if resumed else costs[-1].cpu_seconds,  # of the one process
            steps=sum(cost.steps for cost in costs),
            gradients=sum(cost.gradients for cost in costs),
            memory_mb=max(cost.memory_mb for cost in costs),
            **{key: _sum_of([getattr(cost, key) for cost in costs]) for key in SUMMED},
        ),
        **{field: merged(field) for field in MERGED},
    )


def _sum_of(values: Sequence[Any]) -> Any:
    return None if None in values else sum(values)
