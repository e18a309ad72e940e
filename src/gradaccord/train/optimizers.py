"""Optimisers by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from gradaccord.core.options import check_options, look_up, options_of
from gradaccord.methods.registry import ADDITIONS
from gradaccord.train.config import TrainConfig
from gradaccord.train.row_steps import RowAdamW

OPTIMIZERS: dict[str, Any] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adafactor": torch.optim.Adafactor,
    **{name: added.load() for name, added in ADDITIONS.items() if added.is_optimizer},
}


def make_optimizer(
    train: TrainConfig,
    trunk: Iterable[nn.Parameter],
    others: Iterable[nn.Parameter],
    *,
    by_rows: bool = False,
) -> torch.optim.Optimizer:
    """The configured optimiser, with a group for the trunk and one for heads and regularisers.

    by_rows: some gradients are sparse; `row_steps.steps_rows` says for which optimisers they may be.
    AdamW and Adam are fused where torch can do that on the device. RecAdam pulls the trunk alone
    towards its pretrained weights: heads are new.
    """
    name = train.optimizer.name
    options = check_optimizer(name, train.optimizer.options)
    new = {"params": [p for p in others if p.requires_grad], "lr": train.head_lr or train.lr}
    if name in ADDITIONS:
        new["new"] = True
    groups = [{"params": [p for p in trunk if p.requires_grad], "lr": train.lr}, new]
    build = OPTIMIZERS[name]
    if name in ("adam", "adamw"):
        options.setdefault("fused", True)
    if by_rows and build is not torch.optim.SGD:
        build = RowAdamW
        options |= {"weight_decay": 0.0} if name == "adam" else {}
    made: torch.optim.Optimizer = build(
        [group for group in groups if group["params"]], lr=train.lr, **options
    )
    return made


def check_optimizer(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of an optimiser, converted to their types; unknown ones are refused."""
    cls = look_up("The optimiser", name, OPTIMIZERS)
    if name in ADDITIONS:
        return ADDITIONS[name].check(options)
    return check_options(f"The optimiser {name!r}", options, options_of(cls, ("params", "lr")))
