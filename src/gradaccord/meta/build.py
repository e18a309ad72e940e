"""Network, learner and optimiser of a run, made from its settings."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from gradaccord.data.images.class_folders import ImageClasses
from gradaccord.meta.learners.dotprod import DotProd
from gradaccord.meta.learners.fomaml import FOMAML
from gradaccord.meta.learners.learner import MetaLearner
from gradaccord.meta.learners.maml import MAML
from gradaccord.meta.learners.mamlpp import MAMLPlusPlus
from gradaccord.meta.learners.meta_sgd import MetaSGD
from gradaccord.meta.learners.reptile import Reptile
from gradaccord.meta.settings import FewShotSettings
from gradaccord.models.trunks.conv4 import Conv4


def build_network(settings: FewShotSettings, classes: ImageClasses) -> nn.Module:
    """Conv-4 in the layout asked for; "auto": stride 2 up to 32 pixels, else 48 filters, pooled."""
    channels, height, width = classes.images.shape[1:]
    if height != width:
        raise ValueError(f"The images are {width}x{height}: Conv-4 takes square ones; give --size.")
    small = height <= 32
    layout = settings.network if settings.network != "auto" else ("reptile" if small else "maml++")
    layouts: dict[tuple[str, bool], tuple[Callable[..., Conv4], int]] = {
        ("maml", True): (Conv4.maml_omniglot, 64),
        ("maml", False): (Conv4.maml_imagenet, 32),
        ("reptile", True): (Conv4.reptile_omniglot, 64),
        ("reptile", False): (Conv4.reptile_imagenet, 32),
        ("maml++", True): (Conv4.mamlpp, 64),
        ("maml++", False): (Conv4.mamlpp, 48),
    }
    make, filters = layouts[layout, small]
    return make(settings.ways, channels=channels, size=height, filters=settings.filters or filters)


def build_learner(settings: FewShotSettings, model: nn.Module, seed: int = 0) -> MetaLearner:
    """The algorithm around a network. seed: of the mini-batches of Reptile and DotProd."""
    s = settings
    common: dict[str, Any] = {"inner_lr": s.inner_lr, "inner_steps": s.inner_steps}
    if s.algorithm == "fomaml":
        return FOMAML(model, **common)
    if s.algorithm == "reptile" or s.algorithm.startswith("dotprod"):
        common |= {"inner_batch": s.inner_batch, "evaluation_batch": s.evaluation_batch, "seed": seed}
        if s.algorithm == "reptile":
            return Reptile(model, **common)
        reading = s.algorithm.removeprefix("dotprod-")
        return DotProd(model, reading=reading, weight=s.align, max_ratio=s.align_cap, **common)
    if s.algorithm == "maml++":
        return MAMLPlusPlus(
            model, **common, share=s.share, epoch_length=s.epoch, multi_step_epochs=s.multi_step_epochs
        )
    kind = MetaSGD if s.algorithm == "meta-sgd" else MAML
    return kind(model, **common, share=s.share)


def build_optimizer(settings: FewShotSettings, learner: nn.Module) -> torch.optim.Optimizer:
    """Over weights and all that is learned beside them."""
    if settings.optimizer == "sgd":
        return torch.optim.SGD(learner.parameters(), lr=settings.outer_lr)
    return torch.optim.Adam(learner.parameters(), lr=settings.outer_lr)


def rate_at(settings: FewShotSettings, progress: float) -> float:
    """The outer rate when this share of the run is over."""
    if settings.schedule == "linear":
        return settings.outer_lr * (1 - progress)
    if settings.schedule == "cosine":
        return settings.outer_lr * max(0.01, 0.5 * (1 + math.cos(math.pi * progress)))
    return settings.outer_lr
