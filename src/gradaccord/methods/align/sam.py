"""SAM: the gradient at the worst point nearby, the rival of DotProd."""

from __future__ import annotations

import math
from typing import Any

from gradaccord.core.parameters import Model
from gradaccord.core.report import StepReport
from gradaccord.core.temporary_weights import displaced
from gradaccord.methods.align.hessian_product import displaced_gradient
from gradaccord.methods.align.paired_sum import Batch, PairedSum
from gradaccord.methods.align.vectors import scale_


class SAM(PairedSum):
    """Sharpness-aware minimisation (Foret et al. 2021), in the same frame as DotProd.

        batches=1:  g = G(theta + radius * G/|G|)                    for every batch
        batches=2:  g = G1 + G2(theta + radius * G1/|G1|)            for every pair

    To first order the two-batch form is G1 + G2 + (radius/|G1|) H2 G1: the term that `DotProd`
    subtracts, with the opposite sign. Cost: two gradients per batch with batches=1, one with batches=2;
    one copy of the weights. A batch that is run twice sees the same dropout masks, and updates running
    statistics once.

    radius: length of the displacement (0.05 in the paper).
    batches: 1, or 2 for pairs.
    """

    def __init__(self, model: Model, *, radius: float = 0.05, batches: int = 1, **options: Any) -> None:
        super().__init__(model, **options)
        if not 0 < radius < math.inf:
            raise ValueError(f"`radius` is {radius}: it must be a positive number.")
        if batches not in (1, 2):
            raise ValueError(f"`batches` is {batches!r}: use 1, or 2 for the form on pairs.")
        if batches == 1 and self.every != 2:
            raise ValueError(f"`every` is {self.every}, which only applies to batches=2: leave it out.")
        self.radius = float(radius)
        self.batches = batches

    def _given_one(self, batch: Batch) -> StepReport:
        if self.batches == 2:
            return super()._given_one(batch)
        self._run(batch)
        table = self._table(batch)
        length = float(table[0, 0].sqrt())
        gradient = batch.gradient
        if 0 < length < math.inf:
            step = self.radius / length * batch.factor / self.engine.scale()
            gradient = displaced_gradient(self.task_gradients, batch, batch.gradient, step)
        scale_(gradient, batch.factor)
        self._deliver(gradient)
        return self._report([batch], table)

    def _given_pair(self, first: Batch, second: Batch) -> StepReport:
        if self.batches == 1:
            raise ValueError(
                f"SAM with batches=1 takes one batch a call, got {first.name!r} and {second.name!r}: "
                "use batches=2."
            )
        return super()._given_pair(first, second)

    def _pair(self, first: Batch, second: Batch) -> StepReport:
        self._run(first)
        length = float(self._table(first)[0, 0].sqrt())
        if not 0 < length < math.inf:
            return super()._pair(first, second)
        step = self.radius / length * first.factor / self.engine.scale()
        with displaced(self.parameters.tensors, first.gradient, step):
            self._run(second)
        return self._deliver_sum(first, second)
