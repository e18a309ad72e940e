"""One trunk and a head per task, or per group of tasks that share theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from gradaccord.data.encoded import Batch
from gradaccord.models.trunks.trunk import Trunk


class MultiTaskModel(nn.Module):
    """`model(task, batch)` runs the trunk and that task's head.

    heads: a module for each head's name. head_of: the head that each task reads; tasks that name the
        same one share it (languages of one label set).
    """

    def __init__(
        self, trunk: Trunk, heads: Mapping[str, nn.Module], head_of: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        self.trunk = trunk
        self.head_of = dict(head_of) if head_of is not None else {name: name for name in heads}
        for task, head in self.head_of.items():
            if head not in heads:
                raise ValueError(
                    f"Task {task!r} wants the head {head!r}: there are {', '.join(heads) or 'none'}."
                )
        self.heads = nn.ModuleDict({head_key(name): head for name, head in heads.items()})

    def head(self, task: str) -> Any:
        """The head of a task."""
        if task not in self.head_of:
            raise ValueError(f"Task {task!r} is unknown: the model has {', '.join(self.head_of)}.")
        return self.heads[head_key(self.head_of[task])]

    def forward(self, task: str, batch: Batch) -> torch.Tensor | dict[str, torch.Tensor]:
        """The output of the task's head."""
        output: torch.Tensor | dict[str, torch.Tensor] = self.head(task)(self.trunk, batch)
        return output


def head_key(name: str) -> str:
    """A head's name as a module's name, which may not hold a dot or be an attribute of modules."""
    return "head_" + name.replace("%", "%25").replace(".", "%2E")


def with_head_keys(
    state: Any, heads: Iterable[str], weights: Iterable[str], prefix: str = "heads."
) -> Any:
    """A saved state with the keys that heads have today; up to 0.1 they had no prefix.

    state: dictionaries and lists of any depth. weights: the names of the weights in it. prefix: of
    heads among them.
    """
    keys = {name.replace(".", "·"): head_key(name) for name in heads}
    present = {_head_in(name, prefix) for name in weights if name.startswith(prefix)}
    if present <= set(keys.values()):
        return state

    def renamed(part: Any) -> Any:
        if isinstance(part, dict):
            return {renamed(key): renamed(value) for key, value in part.items()}
        if isinstance(part, list):
            return [renamed(value) for value in part]
        if isinstance(part, str) and part.startswith(prefix):
            old = _head_in(part, prefix)
            return prefix + keys.get(old, old) + part[len(prefix) + len(old) :]
        return part

    return renamed(state)


def _head_in(name: str, prefix: str) -> str:
    return name[len(prefix) :].split(".")[0]
