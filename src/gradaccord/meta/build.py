"""Network, learner, optimiser and fixed tasks of a run, made from its settings."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from gradaccord.data.images.class_folders import ImageClasses
from gradaccord.meta.algorithms import find_algorithm
from gradaccord.meta.episodes.image_tasks import FixedTasks
from gradaccord.meta.learners.learner import MetaLearner
from gradaccord.meta.settings import FewShotSettings
from gradaccord.models.trunks.conv4 import Conv4

VALIDATION_SEED, TEST_SEED = 1, 2  # of the fixed tasks: the same for every run and method


def build_network(settings: FewShotSettings, classes: ImageClasses) -> nn.Module:
    """Conv-4 in the layout asked for; "auto": stride 2 up to 32 pixels, else 48 filters, pooled."""
    channels, height, width = classes.images.shape[1:]
    if height != width:
        raise ValueError(f"The images are {width}x{height}: Conv-4 takes square ones; give --size.")
    small = height <= 32
    layout = settings.network if settings.network != "auto" else ("reptile" if small else "maml++")
    layouts: dict[tuple[str, bool], Callable[..., Conv4]] = {
        ("maml", True): Conv4.maml_omniglot,
        ("maml", False): Conv4.maml_imagenet,
        ("reptile", True): Conv4.reptile_omniglot,
        ("reptile", False): Conv4.reptile_imagenet,
        ("maml++", True): Conv4.mamlpp,
        ("maml++", False): Conv4.gradient_sharing,
    }
    filters = {} if settings.filters is None else {"filters": settings.filters}
    return layouts[layout, small](settings.ways, channels=channels, size=height, **filters)


def build_learner(settings: FewShotSettings, model: nn.Module, seed: int = 0) -> MetaLearner:
    """The algorithm around a network. seed: of the mini-batches of Reptile and DotProd."""
    s, algorithm = settings, find_algorithm(settings.algorithm)
    options = {argument: getattr(s, name) for argument, name in algorithm.options.items()}
    options |= {"seed": seed} if algorithm.seeded else {}
    options |= {"inner_lr": s.inner_lr, "inner_steps": s.inner_steps, "precision": s.precision}
    return algorithm.learner(model, **options)


def build_optimizer(settings: FewShotSettings, learner: nn.Module) -> torch.optim.Optimizer:
    """Over weights and all that is learned beside them."""
    if settings.optimizer == "sgd":
        return torch.optim.SGD(learner.parameters(), lr=settings.outer_lr)
    return torch.optim.Adam(learner.parameters(), lr=settings.outer_lr)


def fixed_tasks(s: FewShotSettings, classes: ImageClasses, count: int, seed: int) -> FixedTasks:
    """Tasks to validate or test on: for one seed the same in every run on these classes."""
    return FixedTasks(
        classes, ways=s.ways, shots=s.shots, queries=s.test_queries, count=count, seed=seed
    )
