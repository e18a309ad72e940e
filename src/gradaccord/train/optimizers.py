"""Optimisers by name, and the learning rate as a function of how much of the run is over."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from gradaccord.core.did_you_mean import nearest
from gradaccord.train.config import TrainConfig

OPTIMIZERS = ("sgd", "adam", "adamw", "adafactor", "recadam")


def make_optimizer(
    train: TrainConfig, trunk: Iterable[nn.Parameter], others: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """The configured optimiser, with a group for the trunk and one for heads and regularisers.

    AdamW and Adam are fused where torch has that for the device. RecAdam pulls the trunk alone
    towards its pretrained weights: heads are new.
    """
    name, options = train.optimizer.name, dict(train.optimizer.options)
    if name not in OPTIMIZERS:
        raise ValueError(
            f"`train.optimizer` is {name!r}, which is unknown: {nearest(name, OPTIMIZERS)}"
        )
    known = optimizer_options(name)
    for option in options:
        if option not in known:
            hint = nearest(option, known, "it takes")
            raise ValueError(f"`train.optimizer` {name!r} has no option {option!r}: {hint}")
    groups: list[dict[str, Any]] = [{"params": [p for p in trunk if p.requires_grad], "lr": train.lr}]
    new = {"params": [p for p in others if p.requires_grad], "lr": train.head_lr or train.lr}
    if name == "recadam":
        new["new"] = True
    groups = [group for group in [*groups, new] if group["params"]]
    if name in ("adam", "adamw"):
        options.setdefault("fused", True)
    optimizer: torch.optim.Optimizer = _class(name)(groups, lr=train.lr, **options)
    return optimizer


def optimizer_options(name: str) -> list[str]:
    """What an optimiser can be given beside the learning rate."""
    known = inspect.signature(_class(name).__init__).parameters
    return [option for option in known if option not in ("self", "params", "lr")]


def _class(name: str) -> Any:
    if name == "recadam":
        from gradaccord.methods.regularize.recadam import RecAdam

        return RecAdam
    named = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW", "adafactor": "Adafactor"}
    return getattr(torch.optim, named[name])


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
