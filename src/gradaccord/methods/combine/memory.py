"""How the gradients of a step's tasks are kept, and where they are compared."""

from __future__ import annotations

from typing import Any, Literal

from gradaccord.core.bank_storage import HalfBank, HostBank
from gradaccord.core.checks import one_of
from gradaccord.core.feature_gradients import FeatureGradients
from gradaccord.core.parameters import Model
from gradaccord.core.sketched_gradients import SketchedGradients
from gradaccord.core.task_gradients import TaskGradients

Memory = Literal["full", "half", "cpu", "sketch"]
Decide = Literal["gradients", "features"]


def task_gradients(
    model: Model, engine: Any, memory: Memory, decide: Decide, seed: int
) -> TaskGradients:
    """What runs the losses and keeps their gradients. seed: of the sketches' random signs."""
    one_of("memory", memory, Memory)
    one_of("decide", decide, Decide)
    if decide == "features":
        if memory != "full":
            raise ValueError(
                f"`memory` is {memory!r} and `decide` is 'features', which keeps none of the tasks' "
                "gradients: leave one of them out."
            )
        return FeatureGradients(model, engine)
    if memory == "sketch":
        return SketchedGradients(model, engine, seed)
    kinds = {"full": TaskGradients, "half": HalfBank, "cpu": HostBank}
    return kinds[memory](model, engine)
