"""Zero-shot transfer: the task of a data set that is evaluated with another task's trained head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradaccord.data.dataset import Dataset
from gradaccord.tasks.registry import build, options
from gradaccord.tasks.task import Task


def task_by_head(
    name: str, dataset: Dataset, source: str, task: Task[Any], given: Mapping[str, Any] | None = None
) -> Task[Any]:
    """The source's task with the data set's language, scoring and the like; an error if they differ.

    given: further options, such as its scoring; those of the head cannot differ.
    """
    if dataset.kind != task.kind:
        raise ValueError(
            f"Task {name!r} is of the kind {dataset.kind} and {source!r} of the kind {task.kind}: only "
            "tasks of one kind can use each other's heads."
        )
    if not task.takes_labels(dataset.labels):
        raise ValueError(
            f"Task {name!r} has the labels {', '.join(dataset.labels)} and {source!r} has "
            f"{', '.join(task.label_names)}: a head can only be used for its own, in the same order."
        )
    trained, given = options(task), given or {}
    for option in task.head_options & given.keys():
        if given[option] != trained.get(option):
            raise ValueError(
                f"Task {name!r} is evaluated with the head of {source!r}: leave `{option}` out."
            )
    own = dict(dataset.options)
    if dataset.language and "language" in trained:
        own["language"] = dataset.language
    own = {option: value for option, value in own.items() if option not in task.head_options}
    return build(task.kind, **{**trained, **own, **given})
