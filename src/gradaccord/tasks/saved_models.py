"""Save a model and its tasks in one folder, and load both again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.saving import TaskEntry, load_model, save_model
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunks.trunk import Trunk
from gradaccord.tasks.registry import build, options
from gradaccord.tasks.task import Task


def save(
    folder: str | Path,
    model: MultiTaskModel,
    tokens: Tokens,
    tasks: Mapping[str, Task[Any]],
    own_files: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write a folder that `load` reads; `AutoModel.from_pretrained` reads the trunk in it.

    own_files: for tasks trained on own files, how these were read (`gradaccord.data.read`).
    """
    own = own_files or {}
    entries = {
        name: TaskEntry(task.kind, options(task), own.get(name, {})) for name, task in tasks.items()
    }
    save_model(folder, model, tokens, entries)


def load(folder: str | Path) -> tuple[MultiTaskModel, Tokens, dict[str, Task[Any]]]:
    """The model, its tokenizer and its tasks, with the same outputs bit for bit."""

    def new_head(entry: TaskEntry, trunk: Trunk) -> nn.Module:
        return build(entry.kind, **entry.options).new_head(trunk)

    model, tokens, entries = load_model(folder, new_head)
    return model, tokens, {name: build(e.kind, **e.options) for name, e in entries.items()}
