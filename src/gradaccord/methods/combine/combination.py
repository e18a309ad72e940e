"""The one code path of all methods that decide by the Gram matrix: bank, measure, weigh, sum."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gradaccord.core.bank import Bank, deliver, put, take
from gradaccord.core.checks import one_of
from gradaccord.core.losses import Losses
from gradaccord.core.method import Method, Reduction
from gradaccord.core.parameters import Granularity, Model, Partition, matching
from gradaccord.core.report import StepReport
from gradaccord.core.task_gradients import TaskGradients


@dataclass(frozen=True)
class Measured:
    """What a method decides by. Tasks are in the method's `task_order`."""

    tasks: tuple[str, ...]
    losses: torch.Tensor  # [T]
    grams: torch.Tensor  # [G, T, T], one Gram matrix per group of parameters
    groups: tuple[str, ...]
    shared: torch.Tensor  # [G] whether a group holds a shared parameter in this step
    at_rest: torch.Tensor  # [T] whether all of a task's gradient is zero, in its own parameters too


class Combination(Method):
    """Base class: a method is a function from Gram matrices and its own state to weights.

    model: the module as it is called in the losses (wrapped in DDP, compiled, ...), or an iterable
        of (name, parameter) pairs.
    granularity: what is treated as one vector: "model", "layer", "tensor", a function from
        parameter name to group name, or a mapping from group name to parameter names or prefixes.
    reduction: "sum" over tasks (plain multi-task training on the summed loss), or "mean".
    shared: the names or prefixes of the shared parameters. By default a parameter is shared in a
        step if at least two of its tasks reach it. What is not shared is never combined: a head
        gets what plain training on the summed (or mean) loss would give it.
    normalize: brings the shared gradients of the step's tasks to their mean length before the method
        sees them, so that no task counts more because its loss is larger. Heads are left alone.
    engine: None for plain torch, a torch.amp.GradScaler, an Accelerator, a Fabric, or an Engine.
    seed: of the method's own random generator, to be the same on every process; the global
        generators are never used.
    """

    weighs_groups = True  # False: a task has one weight, whatever the groups are used for
    measure = True  # False: no Gram matrix; for methods that do not decide by it

    def __init__(
        self,
        model: Model,
        *,
        granularity: Granularity = "model",
        reduction: Reduction = "sum",
        shared: str | Sequence[str] | None = None,
        normalize: bool = False,
        engine: Any = None,
        seed: int = 0,
    ) -> None:
        one_of("reduction", reduction, Reduction)
        if shared is not None and not (shared := list([shared] if isinstance(shared, str) else shared)):
            raise ValueError("`shared` is empty: name a shared parameter, or leave it out.")
        self.reduction = reduction
        self.normalize = normalize
        self.task_gradients = TaskGradients(model, engine)
        self.parameters = self.task_gradients.parameters
        self.engine = self.task_gradients.engine
        self.partition = Partition.of(self.parameters.names, granularity)
        self.given_shared = (
            None if shared is None else matching("shared", shared, self.parameters.names)
        )
        self.generator = torch.Generator().manual_seed(seed)

    @abstractmethod
    def weigh(self, measured: Measured) -> torch.Tensor:
        """The weight of each task in each group, [G, T]; the method's state moves on."""

    def task_order(self, tasks: list[str]) -> list[str]:
        """In which order the method sees a step's tasks, which come as the user gave them (across
        processes, as the first one did). Sorted by name, so that their order never matters.
        """
        return sorted(tasks)

    def own_weights(self, measured: Measured) -> torch.Tensor:
        """The weight of each task in the parameters that it alone reaches, [T]."""
        return torch.ones(len(measured.tasks), dtype=torch.float64, device="cpu")

    def backward(self, losses: Losses) -> StepReport:
        """Fill `.grad` with the combined gradient. See `gradaccord.core.method.Method`."""
        started = time.perf_counter()
        before = take(self.parameters)
        state = self.state_dict()
        try:
            with self.task_gradients.by_rows(self.measure):  # worth it where gradients are compared
                bank, order = self.task_gradients.of(losses)
            bank = bank.ordered(self.task_order(bank.tasks))
            measured, groups, finite = self._measure(bank)
            plain = torch.ones(len(measured.groups), len(bank.tasks), dtype=torch.float64, device="cpu")
            own = plain[0]
            weights = plain
            if finite:
                own = self.own_weights(measured)
                factors = normalizers(measured.grams) if self.normalize else plain[0]
                grams = measured.grams * factors[:, None] * factors[None, :]
                weights = self.weigh(replace(measured, grams=grams)) * factors
            if self.reduction == "mean":
                own, weights = own / len(bank.tasks), weights / len(bank.tasks)
            put(self.parameters, self._combined(bank, groups, weights.tolist(), own.tolist()))
            finite = finite and self.task_gradients.all_finite(
                [p.grad for p in self.parameters.tensors]
            )
            self.engine.sync_buffers()
        except BaseException:
            put(self.parameters, before)
            self.load_state_dict(state)
            raise
        return self._report(measured, weights, order, time.perf_counter() - started, finite)

    def _state(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state()}

    def _load(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"].cpu())

    def _measure(self, bank: Bank) -> tuple[Measured, list[int], bool]:
        """The Gram matrices over shared parameters, the group of each of those (else -1), and
        whether all gradients are finite, those of heads too.
        """
        losses = self.task_gradients.checked_losses(bank)
        if not self.measure:
            shape = (len(self.partition.groups), *losses.shape * 2)
            unknown = torch.full(shape, float("nan"), dtype=torch.float64, device="cpu")
            nothing = torch.zeros(len(self.partition.groups), dtype=torch.bool, device="cpu")
            moving = torch.zeros(len(losses), dtype=torch.bool, device="cpu")
            measured = Measured(
                tuple(bank.tasks), losses, unknown, self.partition.groups, nothing, moving
            )
            return measured, [-1] * len(self.parameters), bool(torch.isfinite(losses).all())
        products = self.task_gradients.dot_products(bank)
        groups = self._shared_groups(bank, products)
        grams = torch.zeros(
            len(self.partition.groups), *products.shape[1:], dtype=torch.float64, device="cpu"
        )
        present = torch.zeros(len(self.partition.groups), dtype=torch.bool, device="cpu")
        for group, product in zip(groups, products, strict=True):
            if group >= 0:
                grams[group] += product
                present[group] = True
        at_rest = (products.diagonal(dim1=1, dim2=2) == 0).all(0)
        measured = Measured(tuple(bank.tasks), losses, grams, self.partition.groups, present, at_rest)
        return measured, groups, bool(torch.isfinite(products).all())

    def _shared_groups(self, bank: Bank, products: torch.Tensor) -> list[int]:
        """The group of each shared parameter, -1 for the others.

        A gradient of zeros does not count as reaching a parameter: a compiled model gives zeros,
        not None, to the heads of the other tasks.
        """
        least = min(2, len(bank.tasks))  # all that a lone task reaches counts as shared
        reached = (products.diagonal(dim1=1, dim2=2) != 0).sum(1).tolist()
        if max(reached) < least:  # all tasks but one are at rest
            reached = bank.reached()
        groups = []
        for name, count, group in zip(
            self.parameters.names, reached, self.partition.index, strict=True
        ):
            if self.given_shared is None:
                shared = count >= least
            else:
                shared = count > 0 and name in self.given_shared
            if shared and group < 0:
                raise ValueError(
                    f"`granularity` leaves out the shared parameter {name!r}: put every shared "
                    "parameter into a group."
                )
            groups.append(group if shared else -1)
        return groups

    def _combined(
        self, bank: Bank, groups: list[int], weights: list[list[float]], own: list[float]
    ) -> list[torch.Tensor | None]:
        return [
            deliver(parameter, bank.combine(i, weights[group] if group >= 0 else own))
            for i, (parameter, group) in enumerate(zip(self.parameters.tensors, groups, strict=True))
        ]

    def _report(
        self,
        measured: Measured,
        weights: torch.Tensor,
        order: list[str],
        seconds: float,
        finite: bool,
    ) -> StepReport:
        index = [measured.tasks.index(task) for task in order]
        groups = measured.shared.nonzero().flatten().tolist() if self.weighs_groups else []
        rows = weights[groups or [0]][:, index]
        return StepReport(
            tasks=tuple(order),
            losses=measured.losses[index],
            gram=measured.grams.sum(0)[index][:, index],
            weights=rows if groups and len(self.partition.groups) > 1 else rows[0],
            groups=tuple(measured.groups[group] for group in groups),
            seconds=seconds,
            finite=finite,
            extras=dict(self.task_gradients.extras),
        )


def normalizers(grams: torch.Tensor) -> torch.Tensor:
    """What brings each task's gradient to the mean length, [G, T, T] -> [T]; 1 where it is zero."""
    lengths = grams.sum(0).diagonal().clamp_min(0).sqrt()
    moving = lengths > 0
    return torch.where(moving, lengths.sum() / moving.sum().clamp_min(1) / lengths, 1.0)


def projection_order(n_tasks: int, generator: torch.Generator) -> torch.Tensor:
    """For each task i, the others in a random order: [T, T - 1]."""
    keys = torch.rand(n_tasks, n_tasks, generator=generator, dtype=torch.float32, device="cpu")
    keys.fill_diagonal_(2.0)  # the task itself comes last, and is cut off
    return keys.argsort(dim=1)[:, :-1]
