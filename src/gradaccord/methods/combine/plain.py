"""Plain multi-task training: the sum or the mean of the task gradients."""

from __future__ import annotations

from typing import Any

import torch

from gradaccord.core.parameters import Model
from gradaccord.methods.combine.combination import Combination, Measured


class Sum(Combination):
    """Multi-task learning on the summed loss, with the same report as the other methods.

        g = sum_t g_t

    The baseline of every comparison. Cost: T batch gradients, T gradients of memory.

    measure: False saves a pass over the gradients. The report then has the losses, and NaN for
        everything about gradients; `finite` still says whether `.grad` is finite. With one task,
        gradients are never measured.
    """

    keeps_a_lone_task = True

    def __init__(self, model: Model, *, measure: bool = True, **options: Any) -> None:
        super().__init__(model, **options)
        if self.normalize and not measure:
            raise ValueError("`normalize` is true and `measure` is false: lengths must be measured.")
        if options.get("memory") == "sketch" and not measure:
            raise ValueError(
                "`memory` is 'sketch' and `measure` is false: sketches serve to measure; leave one out."
            )
        self.measure = measure

    def weigh(self, measured: Measured) -> torch.Tensor:
        return torch.ones(measured.grams.shape[:2], dtype=torch.float64, device="cpu")


class Mean(Sum):
    """Multi-task learning on the mean loss: `Sum` divided by the number of tasks in the step.

        g = 1/T sum_t g_t

    Differs from `Sum` only in the step length, so a learning rate found on one task fits.
    """

    def __init__(self, model: Model, **options: Any) -> None:
        super().__init__(model, reduction="mean", **options)
