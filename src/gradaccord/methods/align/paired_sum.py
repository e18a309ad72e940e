"""Batches taken in pairs at the same weights: the frame of DotProd, and its control `PairedSum`."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gradaccord.core.bank import compact, deliver, put, take
from gradaccord.core.checks import one_of, whole_number
from gradaccord.core.losses import Losses, LossFn, OwnBatches, read_losses
from gradaccord.core.method import Method, Reduction
from gradaccord.core.parameters import Model
from gradaccord.core.replay import RandomState
from gradaccord.core.report import StepReport
from gradaccord.core.task_gradients import TaskGradients
from gradaccord.methods.align.vectors import (
    Vector,
    add_,
    combination,
    copy_of,
    products,
    scale_,
    vector_of,
)


@dataclass
class Batch:
    """One batch: its name, its micro-batches, and once run, its loss and gradient.

    `gradient` is stored as autograd accumulated it; times `factor` it is that of the mean loss (and
    still times the engine's loss scale).
    """

    name: str
    calls: Sequence[LossFn] | None  # None: from a checkpoint or a copy, and cannot be run again
    loss: torch.Tensor
    gradient: Vector
    factor: float
    random: RandomState | None = None  # from before its run
    scale: float = 1.0  # the engine's loss scale, where the batch waits
    trained: tuple[bool, ...] = ()  # which parameters were trainable, where the batch waits
    kept: bool = False  # part of the method's state: not to be changed while something may still fail
    versions: list[int] | None = None  # of the weights, as counted by torch when they are written to

    def __getstate__(self) -> dict[str, Any]:
        """For copies: of other weights than those that the callables are about."""
        return vars(self) | {"calls": None, "versions": None}

    def again(self) -> tuple[dict[str, list[LossFn]], RandomState]:
        """What it takes to run the batch again with the same dropout masks."""
        if self.calls is None or self.random is None:
            raise ValueError(
                f"The batch {self.name!r} comes from a checkpoint or a copy and cannot be run again: "
                "save and copy between pairs, give both batches in one call, or use another scheme."
            )
        return {self.name: list(self.calls)}, self.random


class PairedSum(Method):
    """The sum of two batches' gradients at the same weights: the control for DotProd.

        g = G1 + G2                          (reduction "mean": half of it)

    Half as many optimiser steps as plain training takes. Give `backward` the pair as two entries of the
    mapping, or one batch per call. In that case the first call of a pair leaves `.grad` None, so that
    `optimizer.step()` does nothing, and the second one fills it. In every window of `every` batches the
    last two form a pair and the others are ordinary steps; pairs in one call need an even `every`. A
    batch left without a partner at the end of an epoch gets a plain step after `finish()`. A weight
    that is frozen while a batch waits is left out of the pair. Cost: one batch gradient per batch, one
    gradient of memory while a batch waits.

    model: the module as it is called in the losses, or an iterable of (name, parameter) pairs.
    every: length of the window in batches, at least 2.
    reduction: "sum", or "mean" to keep the step length of one batch.
    engine: None, a torch.amp.GradScaler, an Accelerator, a Fabric, or an Engine.
    seed: of the method's own random generator.
    """

    def __init__(
        self,
        model: Model,
        *,
        every: int = 2,
        reduction: Reduction = "sum",
        engine: Any = None,
        seed: int = 0,
    ) -> None:
        one_of("reduction", reduction, Reduction)
        self.every = whole_number("every", every, least=2)
        self.reduction = reduction
        self.task_gradients = TaskGradients(model, engine)
        self.parameters = self.task_gradients.parameters
        self.engine = self.task_gradients.engine
        self.generator = torch.Generator().manual_seed(seed)
        self.seen = 0  # batches of the current window
        self.waiting: Batch | None = None

    def backward(self, losses: Losses) -> StepReport:
        """Take in one batch or a pair; `.grad` is None while a batch waits for its partner."""
        started = time.perf_counter()
        batches = self._read(losses)
        before, seen, waiting = take(self.parameters), self.seen, self.waiting
        generator = self.generator.get_state()
        try:
            report = self._given_pair(*batches) if len(batches) == 2 else self._given_one(*batches)
            there = [p.grad for p in self.parameters.tensors]
            finite = self.task_gradients.all_finite(self.waiting.gradient if self.waiting else there)
            self.engine.sync_buffers()
        except BaseException:
            put(self.parameters, before)
            self.seen, self.waiting = seen, waiting
            self.generator.set_state(generator)
            raise
        return replace(report, finite=report.finite and finite, seconds=time.perf_counter() - started)

    def finish(self) -> bool:
        """End the window: put the gradient of a batch that waits into `.grad`; True if there was one.

        For the end of an epoch with an odd number of batches: step the optimiser if it returns True.
        """
        batch, self.waiting, self.seen = self.waiting, None, 0
        if batch is None:
            return False
        batch = self._as_of_now(batch)
        scale_(batch.gradient, batch.factor)
        self._deliver(batch.gradient)
        return True

    def _state(self) -> dict[str, Any]:
        """Where in the window the method stands, with the gradient of a batch that waits."""
        waiting = None
        if self.waiting is not None:
            held = zip(self.parameters.tensors, copy_of(self.waiting.gradient), strict=True)
            gradient = [deliver(p, g) for p, g in held]
            waiting = {
                "name": self.waiting.name,
                "loss": self.waiting.loss.clone(),
                "factor": self.waiting.factor,
                "scale": self.waiting.scale,
                "gradient": dict(zip(self.parameters.names, gradient, strict=True)),
            }
        return {"seen": self.seen, "waiting": waiting, "generator": self.generator.get_state()}

    def _load(self, state: dict[str, Any]) -> None:
        saved = state["waiting"]
        self.waiting = None
        if saved is not None:
            found = [saved["gradient"].get(name) for name in self.parameters.names]
            gradient = compact(self.parameters, [None if g is None else g.clone() for g in found])
            self.waiting = Batch(
                saved["name"],
                None,
                saved["loss"].clone(),
                gradient,
                float(saved["factor"]),
                scale=float(saved.get("scale", 1.0)),
                trained=self._trained(),
                kept=True,
            )
        self.seen = int(state["seen"])
        self.generator.set_state(state["generator"].cpu())

    def _pair(self, first: Batch, second: Batch) -> StepReport:
        """Fill `.grad` from two batches, the first of which may have been run already."""
        self._run(first)
        self._run(second)
        return self._deliver_sum(first, second)

    def _deliver_sum(self, first: Batch, second: Batch) -> StepReport:
        table = self._table(first, second)
        self._deliver_reduced(summed(first, second))
        return self._report([first, second], table)

    def _read(self, losses: Losses) -> list[Batch]:
        batches = read_losses(losses)
        if not isinstance(batches, OwnBatches):
            raise TypeError(
                f"{type(self).__name__} runs each batch by itself: give a mapping of callables, not "
                "one callable that returns a mapping."
            )
        if len(batches.tasks) > 2:
            raise ValueError(
                f"{type(self).__name__} takes one batch or two, got {len(batches.tasks)} entries: "
                f"{', '.join(batches.tasks)}."
            )
        empty = torch.zeros((), device="cpu")
        return [Batch(name, calls, empty, [], 0.0) for name, calls in batches.tasks.items()]

    def _given_pair(self, first: Batch, second: Batch) -> StepReport:
        if self.waiting is not None:
            raise ValueError(
                f"A batch of {self.waiting.name!r} waits for its partner, and a pair was given: call "
                "finish() first, or give one batch a call throughout."
            )
        left = self.every - self.seen
        if left % 2:
            raise ValueError(
                f"`every` is {self.every}, of which {left} are left, and a pair was given: use an even "
                "`every`, or give one batch a call."
            )
        self.seen += 2
        if self.seen < self.every:
            return PairedSum._pair(self, first, second)
        self.seen = 0
        return self._pair(first, second)

    def _given_one(self, batch: Batch) -> StepReport:
        self.seen += 1
        if self.seen < self.every - 1:
            self._run(batch, by_rows=False)
            scale_(batch.gradient, batch.factor)
            self._deliver(batch.gradient)
            return self._report([batch], None)
        if self.waiting is None:
            self._run(batch)
            batch.kept = True
            batch.scale, batch.trained = self.engine.scale(), self._trained()
            batch.versions = [p._version for p in self.parameters.tensors]
            self.waiting = batch
            return self._report([batch], None, {"waiting": 1.0})
        first, self.waiting, self.seen = self.waiting, None, 0
        if first.versions and first.versions != [p._version for p in self.parameters.tensors]:
            warnings.warn(
                f"The weights have been written to since the pair's first batch ({first.name!r}): "
                "both gradients should be taken at the same weights.",
                stacklevel=4,
            )
        for name, then, now in zip(self.parameters.names, first.trained, self._trained(), strict=True):
            if now and not then:
                raise ValueError(
                    f"Parameter {name!r} was frozen when the pair's first batch ({first.name!r}) was "
                    "run and is not now: unfreeze between pairs, e.g. after finish()."
                )
        return self._pair(self._as_of_now(first), batch)

    def _trained(self) -> tuple[bool, ...]:
        return tuple(p.requires_grad for p in self.parameters.tensors)

    def _as_of_now(self, batch: Batch) -> Batch:
        """A batch that has waited, at the loss scale and with the weights that are trained now."""
        scale = self.engine.scale()
        pairs = zip(batch.gradient, self._trained(), strict=True)
        return replace(
            batch,
            gradient=[g if trained else None for g, trained in pairs],
            factor=batch.factor * (scale / batch.scale),
            scale=scale,
        )

    def _run(self, batch: Batch, by_rows: bool = True) -> None:
        """Loss and gradient of a batch at the weights as they are, unless it has them."""
        if batch.gradient:
            return
        assert batch.calls is not None
        batch.random = RandomState.capture(self.parameters.tensors)
        with self.task_gradients.by_rows(by_rows):
            bank, _ = self.task_gradients.of({batch.name: list(batch.calls)})
        batch.loss = self.task_gradients.checked_losses(bank)[0]
        batch.factor = bank.factors[0]
        batch.gradient = vector_of(bank, batch.name)

    def _table(self, *batches: Batch) -> torch.Tensor:
        """Dot products between the batches' gradients, without loss scale."""
        table = products(self.task_gradients, *[b.gradient for b in batches])
        factors = table.new_tensor([b.factor for b in batches]) / self.engine.scale()
        return table * factors[:, None] * factors[None, :]

    def _deliver_reduced(self, vector: Vector) -> None:
        if self.reduction == "mean":
            scale_(vector, 0.5)
        self._deliver(vector)

    def _deliver(self, vector: Vector) -> None:
        pairs = zip(self.parameters.tensors, vector, strict=True)
        put(self.parameters, [deliver(p, g) for p, g in pairs])

    def _report(
        self,
        batches: list[Batch],
        table: torch.Tensor | None,
        extras: Mapping[str, float] | None = None,
    ) -> StepReport:
        """The report of a step; without dot products, NaN for all that is about gradients."""
        names = [batch.name for batch in batches]
        if len(set(names)) < len(names):
            names = [f"{name}#{i}" for i, name in enumerate(names, 1)]
        weight = 0.5 if self.reduction == "mean" and len(batches) == 2 else 1.0
        found = {"waiting": 0.0}
        unknown = torch.full((len(batches),) * 2, math.nan, dtype=torch.float64, device="cpu")
        if len(batches) == 2:
            found |= {"dot": math.nan if table is None else float(table[0, 1])}
        return StepReport(
            tasks=tuple(names),
            losses=torch.stack([batch.loss for batch in batches]),
            gram=unknown if table is None else table,
            weights=torch.full((len(batches),), weight, dtype=torch.float64, device="cpu"),
            groups=("model",),
            seconds=0.0,
            finite=table is None or bool(torch.isfinite(table).all()),
            extras=self.task_gradients.extras | found | dict(extras or {}),
        )


def summed(first: Batch, second: Batch) -> Vector:
    """G1 + G2, in the first one's memory unless that must be kept."""
    if first.kept:
        return combination(first.gradient, first.factor, second.gradient, second.factor)
    scale_(first.gradient, first.factor)
    add_(first.gradient, second.gradient, second.factor)
    return first.gradient
