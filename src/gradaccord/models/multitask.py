"""One trunk and a head per task, or per group of tasks that share theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from gradaccord.models.trunks.trunk import Batch, Trunk


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
        # A module's name may not hold a dot, a task's may ("xnli.de").
        self.heads = nn.ModuleDict({_key(name): head for name, head in heads.items()})

    def head(self, task: str) -> Any:
        """The head of a task."""
        if task not in self.head_of:
            raise ValueError(f"Task {task!r} is unknown: the model has {', '.join(self.head_of)}.")
        return self.heads[_key(self.head_of[task])]

    def forward(self, task: str, batch: Batch) -> torch.Tensor | dict[str, torch.Tensor]:
        """What the task's head makes of the batch."""
        output: torch.Tensor | dict[str, torch.Tensor] = self.head(task)(self.trunk, batch)
        return output


def _key(name: str) -> str:
    return name.replace(".", "·")
