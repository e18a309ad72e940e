"""Plain multi-task training: the sum or the mean of the task gradients."""

from __future__ import annotations

from typing import Any

import torch

from gradaccord.core.parameters import Model
from gradaccord.methods.combine.combination import Combination, Measured


class Sum(Combination):
    """Multi-task learning on the summed loss, with the report that the other methods give.

        g = sum_t g_t

    The baseline of every comparison. Cost: T batch gradients, T gradients of memory.

    measure: False leaves the gradients unread, which saves a pass over them: the report then has the
        losses alone, NaN for all that is said of gradients; `finite` still speaks of `.grad`.
    """

    def __init__(self, model: Model, *, measure: bool = True, **options: Any) -> None:
        super().__init__(model, **options)
        if self.normalize and not measure:
            raise ValueError("`normalize` is true and `measure` is false: lengths must be measured.")
        self.measure = measure

    def weigh(self, measured: Measured) -> torch.Tensor:
        return torch.ones(measured.grams.shape[:2], dtype=torch.float64, device="cpu")


class Mean(Sum):
    """Multi-task learning on the mean loss: `Sum` divided by the number of tasks in the step.

        g = 1/T sum_t g_t

    Differs from `Sum` by the step length alone, so that a learning rate found on one task fits.
    """

    def __init__(self, model: Model, **options: Any) -> None:
        super().__init__(model, reduction="mean", **options)
