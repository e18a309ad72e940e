"""Save a model with its tasks, and load it again ready to predict.

save("runs/trio/best", model, tokens, {"sst": sst, "sts": sts})
saved = load("runs/trio/best")
saved.model("sst", batch)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.saving import TaskEntry, load_model, save_model
from gradaccord.models.tokens import Tokens
from gradaccord.tasks.kinds import build, options
from gradaccord.tasks.task import Task


@dataclass(frozen=True)
class Saved:
    """What a folder held."""

    model: MultiTaskModel
    tokens: Tokens
    tasks: dict[str, Task[Any]]


def save(
    folder: str | Path, model: MultiTaskModel, tokens: Tokens, tasks: Mapping[str, Task[Any]]
) -> None:
    """Write trunk, tokenizer, heads and tasks; see `gradaccord.models.saving` for the files."""
    save_model(folder, model, tokens, {n: TaskEntry(t.kind, options(t)) for n, t in tasks.items()})


def load(folder: str | Path) -> Saved:
    """Read what `save` wrote; the model gives the same outputs, bit by bit."""
    model, tokens, entries = load_model(
        folder, lambda entry, trunk: build(entry.kind, **entry.options).new_head(trunk)
    )
    return Saved(model.eval(), tokens, {n: build(e.kind, **e.options) for n, e in entries.items()})
