"""Start a run of any method: one model for all tasks, or, for `stl`, one for each."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from gradaccord.methods.registry import SINGLE_TASK
from gradaccord.runs.files import CONFIG, RESULTS, RunFolderError, read_json, write_json
from gradaccord.runs.lock import locked_by_main
from gradaccord.train.config import Config, Method
from gradaccord.train.run import make_accelerator, train


def start(config: Config, folder: Path, **options: Any) -> dict[str, Any]:
    """`train`, with the options it takes; `stl` trains the tasks one after another, each alone."""
    if config.method.name != SINGLE_TASK:
        return train(config, folder, **options)
    return _single_tasks(config, folder, **options)


def _single_tasks(config: Config, folder: Path, **options: Any) -> dict[str, Any]:
    """Single-task learning: a run per task below `folder`, each with its share of the budget."""
    if config.method.options:
        raise ValueError(
            f"Method {SINGLE_TASK!r} takes no options, got {', '.join(config.method.options)}."
        )
    resume = bool(options.pop("resume", False))
    say = options.get("say", lambda sentence: None)
    accelerator = make_accelerator(config)
    with locked_by_main(folder, accelerator, partial(_finished, folder, resume)) as finished:
        if finished is not None:
            say(f"{folder} holds a finished run: nothing to do.")
            return finished
        trained = [name for name, task in config.tasks.items() if not task.evaluate_only]
        parts = {}
        for name in trained:
            say(f"Training {name} alone.")
            own = alone(config, name, len(trained))
            begun = resume and (folder / name / CONFIG).exists()
            parts[name] = train(own, folder / name, resume=begun, **options)
        results = _joined(config, parts)
        if accelerator.is_main_process:
            write_json(folder / RESULTS, results)
    return results


def _finished(folder: Path, resume: bool) -> dict[str, Any] | None:
    """The results, if there are any; an error if they would be overwritten."""
    if not (folder / RESULTS).exists():
        return None
    if not resume:
        raise RunFolderError(
            f"The run folder {folder} holds a finished run: choose another --out, or --resume."
        )
    finished: dict[str, Any] = read_json(folder / RESULTS)
    return finished


def alone(config: Config, task: str, tasks: int) -> Config:
    """The configuration of one task's own run: its share of the gradients, and all the steps.

    A joint step takes a batch of every task, one of a task alone takes one of its own.
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
    return config.model_copy(
        update={
            "tasks": {task: config.tasks[task].model_copy(update={"shared_head": None}), **unseen},
            "method": Method(name="sum"),
            "sampler": None,
            "train": length.model_copy(update=update),
        }
    )


def _joined(config: Config, parts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The results of all tasks as those of one run. Each task's come from its own model."""
    first = next(iter(parts.values()))
    joined = {
        "finished": first["finished"],
        "method": {"name": SINGLE_TASK},
        "regularize": first["regularize"],
        "seed": config.train.seed,
        "trained": list(parts),
        "best_step": max(part["best_step"] for part in parts.values()),
        "last": {"train_loss": {}},
        "evaluations": [],
        "overlaps": [o for part in parts.values() for o in part["overlaps"]],
    }
    for key in ("metrics", "kinds", "dev", "test", "errors", "notes"):
        joined[key] = {}
        for name, part in parts.items():
            # An unseen task is judged by the first model that can.
            for task, value in part[key].items():
                if task == name or task not in joined[key]:
                    joined[key][task] = value
    for part in parts.values():
        joined["last"]["train_loss"] |= part["last"].get("train_loss", {})
    costs = [part["cost"] for part in parts.values()]
    joined["cost"] = {
        "seconds": sum(cost["seconds"] for cost in costs),
        "cpu_seconds": None
        if any(c["cpu_seconds"] is None for c in costs)
        else costs[-1]["cpu_seconds"],
        "steps": sum(cost["steps"] for cost in costs),
        "gradients": sum(cost["gradients"] for cost in costs),
        "memory_mb": max(cost["memory_mb"] for cost in costs),
    }
    return joined
