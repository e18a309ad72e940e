"""The one code path of all methods that decide by the losses alone: run, weigh, sum."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch

from gradaccord.core.bank import put, take
from gradaccord.core.checks import one_of
from gradaccord.core.losses import Losses
from gradaccord.core.method import Method, Reduction
from gradaccord.core.parameters import Model
from gradaccord.core.report import StepReport
from gradaccord.core.weighted_gradient import Weighted, WeightedGradient


class LossWeighting(Method):
    """Base class: a method is a function from a step's losses and its own state to weights.

        g = sum_t w_t g_t,   w = weigh(L_1, ..., L_T)

    The weights count as constants in the gradient, and apply to heads too. State is kept by task name:
    a task may be absent from a step. Gradients are not measured, so the report has only losses and
    weights. Cost: one batch under several heads runs forward and backward once and has one gradient in
    memory. With a batch for each task (or micro-batches) it costs T batch gradients and T gradients of
    memory, as `Sum` does.

    model: the module as it is called in the losses (wrapped in DDP, compiled, ...), or an iterable
        of (name, parameter) pairs.
    reduction: "sum" over tasks, or "mean", which divides by the number of tasks in the step.
    engine: None for plain torch, a torch.amp.GradScaler, an Accelerator, a Fabric, or an Engine.
    seed: of the method's own random generator; give every process the same.
    """

    combines = True
    loss_only = True

    def __init__(
        self, model: Model, *, reduction: Reduction = "sum", engine: Any = None, seed: int = 0
    ) -> None:
        one_of("reduction", reduction, Reduction)
        self.reduction = reduction
        self.task_gradients = WeightedGradient(model, engine)
        self.parameters = self.task_gradients.parameters
        self.engine = self.task_gradients.engine
        self.generator = torch.Generator().manual_seed(seed)

    @abstractmethod
    def weigh(self, losses: dict[str, float]) -> dict[str, float]:
        """The weight of each task, in the order given (by name); also updates the method's state.

        losses: of the joined batch of all processes, finite.
        """

    def backward(self, losses: Losses) -> StepReport:
        """Fill `.grad` with the weighted losses' gradient. See `gradaccord.core.method.Method`."""
        started = time.perf_counter()
        before = take(self.parameters)
        state = self.state_dict()
        try:
            found = self.task_gradients.fill(losses, self._weights)
            finite = self.task_gradients.all_finite([p.grad for p in self.parameters.tensors])
            finite = finite and bool(torch.isfinite(found.losses).all())
            self.engine.sync_buffers()
        except BaseException:
            put(self.parameters, before)
            self.load_state_dict(state)
            raise
        if not finite:  # the step will be skipped
            self.load_state_dict(state)
        return self._report(found, time.perf_counter() - started, finite)

    def _weights(self, tasks: list[str], losses: torch.Tensor) -> torch.Tensor:
        weights = self.weigh(dict(zip(tasks, losses.tolist(), strict=True)))
        found = losses.new_tensor([weights[task] for task in tasks])
        return found / len(tasks) if self.reduction == "mean" else found

    def _report(self, found: Weighted, seconds: float, finite: bool) -> StepReport:
        index = [found.tasks.index(task) for task in found.order]
        return StepReport(
            tasks=tuple(found.order),
            losses=found.losses[index],
            gram=found.losses.new_full((len(index), len(index)), float("nan")),
            weights=found.weights[index],
            groups=(),
            seconds=seconds,
            finite=finite,
            extras=dict(self.task_gradients.extras),
        )

    def _state(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state()}

    def _load(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"].cpu())


def softmax(values: Mapping[str, float]) -> dict[str, float]:
    """The softmax of numbers by name."""
    tensor = torch.tensor(list(values.values()), dtype=torch.float64, device="cpu")
    return dict(zip(values, torch.softmax(tensor, 0).tolist(), strict=True))


def above(least: Mapping[str, float], losses: Mapping[str, float], why: str) -> None:
    """Refuse a loss that is not above the least that its task can have (0 where none is given)."""
    for task, loss in losses.items():
        bound = least.get(task, 0.0)
        if not loss > bound:
            raise ValueError(
                f"Task {task!r} has the loss {loss:g}, which is not above {bound:g}: {why}; shift the "
                "loss to be positive."
            )
