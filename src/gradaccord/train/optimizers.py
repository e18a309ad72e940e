"""Optimisers by name, and the learning rate as a function of how much of the run is over."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from gradaccord.core.options import check_options, look_up, options_of
from gradaccord.methods.registry import ADDITIONS
from gradaccord.train.config import TrainConfig

OPTIMIZERS: dict[str, Any] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adafactor": torch.optim.Adafactor,
    **{name: added.load() for name, added in ADDITIONS.items() if added.is_optimizer},
}


def make_optimizer(
    train: TrainConfig, trunk: Iterable[nn.Parameter], others: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """The configured optimiser, with a group for the trunk and one for heads and regularisers.

    AdamW and Adam are fused where torch has that for the device. RecAdam pulls the trunk alone
    towards its pretrained weights: heads are new.
    """
    name = train.optimizer.name
    options = check_optimizer(name, train.optimizer.options)
    new = {"params": [p for p in others if p.requires_grad], "lr": train.head_lr or train.lr}
    if name in ADDITIONS:
        new["new"] = True
    groups = [{"params": [p for p in trunk if p.requires_grad], "lr": train.lr}, new]
    if name in ("adam", "adamw"):
        options.setdefault("fused", True)
    made: torch.optim.Optimizer = OPTIMIZERS[name](
        [group for group in groups if group["params"]], lr=train.lr, **options
    )
    return made


def check_optimizer(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of an optimiser as their types have them; what does not exist is refused."""
    cls = look_up("The optimiser", name, OPTIMIZERS)
    if name in ADDITIONS:
        return ADDITIONS[name].check(options)
    return check_options(f"The optimiser {name!r}", options, options_of(cls, ("params", "lr")))


class Schedule:
    """Sets every group's rate: from 0 up during the warm-up, then down (or not) until the end.

    A function of the share of the budget that is spent, so that methods whose steps cost
    differently have the same rates at the same expense.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, kind: str, warmup: float) -> None:
        self.optimizer = optimizer
        self.kind = kind
        self.warmup = warmup
        self.rates = [group["lr"] for group in optimizer.param_groups]

    def factor(self, share: float) -> float:
        """By which the rates are multiplied when this share of the run is over."""
        if share < self.warmup:
            return share / self.warmup
        rest = (share - self.warmup) / max(1 - self.warmup, 1e-12)
        if self.kind == "linear":
            return max(1 - rest, 0.0)
        if self.kind == "cosine":
            return 0.5 * (1 + math.cos(math.pi * min(rest, 1.0)))
        return 1.0

    def set(self, share: float, step_share: float) -> None:
        """For a step that begins at `share`; the first one of a warm-up is not lost on rate 0."""
        factor = self.factor(min(share + step_share / 2, 1.0))
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
