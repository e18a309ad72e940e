"""DotProd: plain training plus the gradient of the dot product between two batches' gradients."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from gradaccord.core.bank import put, take
from gradaccord.core.checks import one_of
from gradaccord.core.losses import Losses
from gradaccord.core.parameters import Model
from gradaccord.core.replay import RandomState
from gradaccord.core.report import StepReport
from gradaccord.core.temporary_weights import buffers_of, preserved
from gradaccord.methods.align.hessian_product import (
    NoDoubleBackward,
    autocast_seen,
    culprit,
    difference,
    exact,
    warn_of_differences,
)
from gradaccord.methods.align.paired_sum import Batch, PairedSum, summed
from gradaccord.methods.align.vectors import (
    Vector,
    add_,
    combination,
    copy_of,
    flip_signs_,
    products,
    scale_,
)

Mode = Literal["exact", "difference"]
Scheme = Literal["one-sided", "centred", "symmetric"]
Objective = Literal["dot", "cosine"]

# Lengths of the displacement for which a difference is within 1 % of the product on smooth networks
# in float32, from initialisation to low loss. Shorter ones drown in rounding, longer ones bend.
LENGTH = {"one-sided": 3e-4, "centred": 1e-3, "symmetric": 3e-4}


@dataclass(frozen=True)
class Check:
    """How far the product by differences is from the exact one, on one pair of batches."""

    relative_error: float
    cosine: float
    product_norm: float

    def __str__(self) -> str:
        verdict = "good" if self.relative_error < 0.05 else "noise" if self.cosine < 0.9 else "rough"
        return (
            f"difference against exact product: relative error {self.relative_error:.2g}, cosine "
            f"{self.cosine:.4f} ({verdict}); |H2 G1| = {self.product_norm:.3g}"
        )


class DotProd(PairedSum):
    """Meta DotProd (Kedia et al. 2021): align the gradients of two batches while training on both.

        G1, G2 = gradients of two batches at theta;   D = -H2 G1   (H2: Hessian of the second loss)
        g = G1 + G2 + weight * D,   with |weight * D| <= max_ratio * |G1 + G2|

    Descending along D ascends G1.G2 in expectation: E[H2 G1] = 1/2 E[grad(G1.G2)]. Takes pairs of
    batches as `PairedSum` does, which is the control to compare with. Cost per pair, in batch
    gradients: exact about 4.2 (double backward, 3 to 4 times the activations), differences 3 (and a
    copy of the weights), centred 4, symmetric 5 by differences and 8 exact.

    weight: lambda. The term is capped: an exact product at the paper's 0.1 can make training diverge.
    mode: "exact", falling back to differences where something cannot be differentiated twice; or
        "difference".
    scheme: "one-sided" (-H2 G1); "centred" differences; "symmetric": -(H2 G1 + H1 G2) / 2.
    step: "auto": a displacement of length 3e-4 (centred 1e-3); or the paper's fixed alpha, which in
        float32 is mostly rounding noise at 1e-7.
    objective: "dot", or "cosine": the gradient of cos(G1, G2) through G2, bounded, at the same cost.
    max_ratio: the cap; inf for none.
    control: "noise" gives every coordinate of the term a random sign: same length, no direction.
    Others as in `PairedSum`.
    """

    def __init__(
        self,
        model: Model,
        *,
        weight: float = 0.1,
        every: int = 2,
        mode: Mode = "exact",
        scheme: Scheme = "one-sided",
        step: float | Literal["auto"] = "auto",
        objective: Objective = "dot",
        max_ratio: float = 0.1,
        control: Literal["noise"] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model, every=every, **options)
        one_of("mode", mode, Mode)
        one_of("scheme", scheme, Scheme)
        one_of("objective", objective, Objective)
        one_of("control", control, (None, "noise"))
        if mode == "exact" and scheme == "centred":
            raise ValueError(
                "`scheme` is 'centred', which is a kind of difference: use mode='difference'."
            )
        if not math.isfinite(weight):
            raise ValueError(f"`weight` is {weight}: it must be a finite number.")
        if not max_ratio > 0:
            raise ValueError(f"`max_ratio` is {max_ratio}: it must be positive; inf means no cap.")
        if step != "auto" and not (isinstance(step, int | float) and 0 < step < math.inf):
            raise ValueError(f"`step` is {step!r}: use 'auto' or a positive number such as 1e-7.")
        self.weight = float(weight)
        self.mode = mode
        self.scheme = scheme
        self.step = step
        self.objective = objective
        self.max_ratio = float(max_ratio)
        self.control = control
        self.terms = 0  # pairs so far that had a term
        self.capped = 0  # and how many of these the cap has shortened
        self._warned = False
        self._twice = False  # exact products have worked

    @classmethod
    def paper(cls, model: Model, **options: Any) -> DotProd:
        """The setting of the paper: one-sided differences with alpha 1e-7, weight 0.1, no cap."""
        setting: dict[str, Any] = {
            "mode": "difference",
            "step": 1e-7,
            "weight": 0.1,
            "max_ratio": math.inf,
        }
        return cls(model, **(setting | options))

    def check(self, losses: Losses) -> Check:
        """Compare this setting's differences with the exact product on a pair; changes nothing."""
        batches = self._read(losses)
        if len(batches) != 2:
            raise ValueError(f"check() compares on a pair of batches, got {len(batches)} entries.")
        first, second = batches
        before = take(self.parameters)
        start = RandomState.capture(self.parameters.tensors)
        try:
            with start.replayed(), preserved(buffers_of(self.engine.model)):
                self._run(first)
                self._run(second)
                vector, factor, length = self._direction(first, second, self._table(first, second))
                true = exact(
                    self.task_gradients, second, lambda _: (vector, factor), True, unproven=True
                )
                step = self._step(length)
                centred = self.scheme == "centred"
                found = difference(self.task_gradients, second, vector, factor, step, centred)
        finally:
            put(self.parameters, before)
        scale_(found, 1 / step)
        table = products(self.task_gradients, found, true)
        add_(found, true, -1.0)
        error = float(products(self.task_gradients, found)[0, 0].sqrt())
        norms = table.diagonal().sqrt().tolist()
        if not norms[1] > 0:
            raise ValueError("The exact product on this pair is zero: give batches with a gradient.")
        return Check(
            relative_error=error / norms[1],
            cosine=float(table[0, 1]) / (norms[0] * norms[1]) if norms[0] > 0 else 0.0,
            product_norm=norms[1] * second.factor / self.engine.scale(),
        )

    def _state(self) -> dict[str, Any]:
        return super()._state() | {"terms": self.terms, "capped": self.capped}

    def _load(self, state: dict[str, Any]) -> None:
        super()._load(state)
        self.terms, self.capped = int(state["terms"]), int(state["capped"])

    def _pair(self, first: Batch, second: Batch) -> StepReport:
        counts = self.terms, self.capped
        try:
            self._run(first)
            if self.mode == "exact" and self.task_gradients.shards is not None:
                self._fall_back("fully_shard")
            if self.mode == "exact":
                try:
                    return self._exact_pair(first, second)
                except NoDoubleBackward as error:
                    name = error.culprit or self._culprit(second)
                report = self._difference_pair(first, second)  # may fail for the same reason
                self._fall_back(name)
                return report
            return self._difference_pair(first, second)
        except BaseException:
            self.terms, self.capped = counts
            raise

    def _exact_pair(self, first: Batch, second: Batch) -> StepReport:
        # A cosine needs all of the second gradient before the product: the graph of a single
        # micro-batch gives it, otherwise the batch is run once more.
        single = len(second.calls or ()) == 1 and self.engine.group is None
        again = self.scheme == "symmetric" or (self.objective == "cosine" and not single)
        if again:
            self._run(second)
        with self._attempt():
            second.random = second.random or RandomState.capture(self.parameters.tensors)

            def direction(gradient: Vector) -> tuple[Vector, float]:
                seen = second if again else replace(second, gradient=gradient, factor=1.0)
                return self._direction(first, seen)[:2]

            unproven = not self._twice
            term = exact(self.task_gradients, second, direction, again, unproven)
            if self.scheme == "symmetric":
                vector, factor, _ = self._direction(second, first)
                other = exact(self.task_gradients, first, lambda _: (vector, factor), True, unproven)
        unit = -second.factor
        if self.scheme == "symmetric":
            scale_(term, 0.5 * unit)
            add_(term, other, -0.5 * first.factor)
            unit = 1.0
        table = self._table(first, second)
        return self._with_term(first, second, summed(first, second), term, unit, table)

    def _difference_pair(self, first: Batch, second: Batch) -> StepReport:
        if self._warned:
            self._run(second)
        else:
            with autocast_seen() as seen:
                self._run(second)
            warn_of_differences(self.task_gradients, bool(seen))
            self._warned = True
        table = self._table(first, second)
        if not 0 < float(table.diagonal().prod()) < math.inf:
            return super()._pair(first, second)
        total: list[Vector] = []

        def difference_of(
            batch: Batch, other: Batch, at_last: Callable[[], None] = lambda: None
        ) -> tuple[Vector, float]:
            vector, factor, length = self._direction(
                other, batch, table if other is first else table.flip(0, 1)
            )
            centred, step = self.scheme == "centred", self._step(length)
            term = difference(self.task_gradients, batch, vector, factor, step, centred, at_last)
            return term, -batch.factor / step

        if self.scheme == "symmetric":
            used = [replace(b, gradient=copy_of(b.gradient)) for b in (first, second)]
            term, unit = difference_of(used[1], first)
            scale_(term, 0.5 * unit)
            other, unit = difference_of(used[0], second)
            add_(term, other, 0.5 * unit)
            total.append(summed(first, second))
            return self._with_term(first, second, total[0], term, 1.0, table)
        # The sum takes the first gradient's memory once the weights have moved along it.
        term, unit = difference_of(second, first, lambda: total.append(summed(first, second)))
        return self._with_term(first, second, total[0], term, unit, table)

    def _direction(
        self, first: Batch, second: Batch, table: torch.Tensor | None = None
    ) -> tuple[Vector, float, float]:
        """The vector that the second batch's Hessian is multiplied with: stored, its factor, length.

        dot: G1. cosine: (G1/|G1| - cos G2/|G2|) / |G2|, so that H2 v = grad cos(G1, G2) through G2.
        `table` holds the two gradients' dot products, if they are known.
        """
        scale = self.engine.scale()
        if self.objective == "dot":
            length = math.nan if table is None else float(table[0, 0].sqrt())
            return first.gradient, first.factor / scale, length
        table = self._table(first, second) if table is None else table
        one, two = table.diagonal().sqrt().tolist()
        if not 0 < one * two < math.inf:
            return first.gradient, 0.0, 1.0
        cosine = float(table[0, 1]) / (one * two)
        vector = combination(
            first.gradient,
            first.factor / (scale * one * two),
            second.gradient,
            -cosine * second.factor / (scale * two * two),
        )
        return vector, 1.0, math.sqrt(max(1 - cosine**2, 1e-12)) / two

    def _step(self, length: float) -> float:
        return LENGTH[self.scheme] / length if self.step == "auto" else float(self.step)

    def _with_term(
        self,
        first: Batch,
        second: Batch,
        total: Vector,
        term: Vector,
        unit: float,
        table: torch.Tensor,
    ) -> StepReport:
        """Fill `.grad` with total + weight * unit * term, no longer than the cap allows."""
        length = (
            float(products(self.task_gradients, term)[0, 0].sqrt()) * abs(unit) / self.engine.scale()
        )
        plain = float(table.sum().clamp_min(0).sqrt())
        ratio = abs(self.weight) * length / plain if plain > 0 else math.inf
        extras = {"product_norm": length, "ratio": ratio, "capped": 0.0}
        if math.isfinite(length) and plain > 0:
            capped = ratio > self.max_ratio
            self.terms += 1
            self.capped += capped
            extras["capped"] = float(capped)
            if self.control == "noise":
                flip_signs_(term, self.generator)
            add_(total, term, self.weight * unit * (self.max_ratio / ratio if capped else 1.0))
        extras["capped_share"] = self.capped / max(1, self.terms)
        self._deliver_reduced(total)
        return self._report([first, second], table, extras)

    @contextmanager
    def _attempt(self) -> Iterator[None]:
        """Leave no trace of an exact product that failed."""
        start = RandomState.capture(self.parameters.tensors)
        buffers = buffers_of(self.engine.model)
        values = [b.detach().clone() for b in buffers]
        try:
            yield
        except NoDoubleBackward:
            take(self.parameters)
            start.restore()
            with torch.no_grad():
                for buffer, value in zip(buffers, values, strict=True):
                    buffer.copy_(value)
            raise
        self._twice = True

    def _fall_back(self, name: str) -> None:
        self.mode = "difference"
        warnings.warn(
            f"{name} cannot be differentiated twice: an exact product is not possible here, and "
            "differences are used from here on.",
            stacklevel=5,
        )

    def _culprit(self, batch: Batch) -> str:
        calls = batch.calls or ()
        here = RandomState.capture(self.parameters.tensors)
        buffers = buffers_of(self.engine.model)
        with here.replayed(), preserved(buffers), self.engine.no_sync():
            return culprit(self.engine.model, lambda: calls[0]())
