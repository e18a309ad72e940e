"""The learners by the names that runs have for them, with the settings that each starts from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gradaccord.core.did_you_mean import nearest
from gradaccord.meta.learners.dotprod import DotProd
from gradaccord.meta.learners.fomaml import FOMAML
from gradaccord.meta.learners.learner import MetaLearner
from gradaccord.meta.learners.maml import MAML
from gradaccord.meta.learners.mamlpp import MAMLPlusPlus
from gradaccord.meta.learners.meta_sgd import MetaSGD
from gradaccord.meta.learners.reptile import Reptile


@dataclass(frozen=True)
class Algorithm:
    """A learner, and how a run calls it.

    start: settings that differ from those of `FewShotSettings`. options: its arguments, besides inner
    rate and steps, and the settings that they take. seeded: whether it takes the run's seed.
    """

    learner: Callable[..., MetaLearner]
    start: Mapping[str, Any]
    options: Mapping[str, str] = field(default_factory=dict)
    seeded: bool = False


# Starts suit 28x28 characters and minutes of one processor core. Inner rates are for a loss that is a
# mean over examples.
_MAML = {"inner_lr": 0.1, "inner_steps": 3, "outer_lr": 3e-3}
_REPTILE = {
    "inner_lr": 1e-3, "inner_steps": 5, "evaluation_steps": 50, "inner_batch": 10,
    "evaluation_batch": 5, "train_shots": 10, "tasks": 5, "queries": 1, "optimizer": "sgd",
    "outer_lr": 1.0, "schedule": "linear", "network": "reptile",
}  # fmt: skip
_INNER = _REPTILE | {"inner_steps": 6}  # in pairs
_OUTER = _REPTILE | {"optimizer": "adam", "outer_lr": 1e-3, "schedule": "constant"}
_SHARING = {"share": "share"}
_EPOCHS = {"epoch_length": "epoch", "multi_step_epochs": "multi_step_epochs"}
_BATCHES = {"inner_batch": "inner_batch", "evaluation_batch": "evaluation_batch"}
_ALIGNED = _BATCHES | {"weight": "align", "max_ratio": "align_cap"}
_inner, _outer = (partial(DotProd, reading=reading) for reading in ("inner", "outer"))

ALGORITHMS = {
    "maml": Algorithm(MAML, _MAML, _SHARING),
    "fomaml": Algorithm(FOMAML, _MAML),
    "meta-sgd": Algorithm(MetaSGD, _MAML, _SHARING),
    "maml++": Algorithm(MAMLPlusPlus, _MAML, _SHARING | _EPOCHS),
    "reptile": Algorithm(Reptile, _REPTILE, _BATCHES, seeded=True),
    "dotprod-inner": Algorithm(_inner, _INNER, _ALIGNED, seeded=True),
    "dotprod-outer": Algorithm(_outer, _OUTER, _ALIGNED, seeded=True),
}
FIRST_ORDER = ("reptile", "fomaml")  # which have no second derivatives
# To which gradient sharing can be added.
SHARE = tuple(name for name, own in ALGORITHMS.items() if "share" in own.options)


def find_algorithm(name: str) -> Algorithm:
    """A learner by its name."""
    if name not in ALGORITHMS:
        remedy = nearest(name, ALGORITHMS, "choose one of")
        raise ValueError(f"There is no algorithm {name!r}: {remedy}")
    return ALGORITHMS[name]
