"""The one code path of all methods that decide by the Gram matrix: bank, measure, weigh, sum."""

from __future__ import annotations

import math
import time
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import torch

from gradaccord.core.bank import Bank, put, take
from gradaccord.core.checks import one_of
from gradaccord.core.losses import Losses
from gradaccord.core.method import Method, Reduction
from gradaccord.core.parameters import Granularity, Model, Partition, matching
from gradaccord.core.report import StepReport
from gradaccord.methods.combine.memory import Decide, Memory, task_gradients


@dataclass(frozen=True)
class Measured:
    """What a method decides by. Tasks are in the method's `task_order`."""

    tasks: tuple[str, ...]
    losses: torch.Tensor  # [T]
    grams: torch.Tensor  # [G, T, T], one Gram matrix per group of parameters
    groups: tuple[str, ...]
    shared: torch.Tensor  # [G] whether a group holds a shared parameter in this step
    at_rest: torch.Tensor  # [T] whether all of a task's gradient is zero, in its own parameters too
    reach: float = math.nan  # the sum of the lengths of the tasks' whole gradients; NaN: unknown


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
    normalize: scale the shared gradients of the step's tasks to their mean length before the method
        sees them, so that no task counts more because its loss is larger. Heads are not scaled.
    memory: how the tasks' gradients are kept until they are combined. "full": unchanged, T gradients of
        memory; "half": in bfloat16, half of that; "cpu": in the host's memory, for models on an
        accelerator; "sketch": T/16 gradients of memory, for twice the passes. A first pass keeps
        sketches of the gradients, which give nearly the same weights; a second pass over every loss
        gives the exact gradient with these weights. The callables must return the same losses when
        called again.
    decide: what the method compares: "gradients" of the shared parameters, or "features", the gradients
        at the shared representation of one batch under several heads. "features" is an approximation
        (`rep_grad` of LibMTL, the upper bound of MGDA-UB) that runs the trunk backward once, not T
        times.
    engine: None for plain torch, a torch.amp.GradScaler, an Accelerator, a Fabric, or an Engine.
    seed: of the method's own random generator; give every process the same. The global generators are
        never used.
    """

    weighs_groups = True  # False: a task has one weight, whatever the groups are used for
    measure = True  # False: no Gram matrix; for methods that do not decide by it
    keeps_a_lone_task = False  # True: one task alone has the weight 1, and is not measured

    combines = True

    def __init__(
        self,
        model: Model,
        *,
        granularity: Granularity = "model",
        reduction: Reduction = "sum",
        shared: str | Sequence[str] | None = None,
        normalize: bool = False,
        memory: Memory = "full",
        decide: Decide = "gradients",
        engine: Any = None,
        seed: int = 0,
    ) -> None:
        one_of("reduction", reduction, Reduction)
        if decide == "features" and (granularity != "model" or shared is not None):
            raise ValueError(
                "`decide` is 'features', which has one weight per task for all that is shared: leave "
                "`granularity` and `shared` out."
            )
        if shared is not None and not (shared := list([shared] if isinstance(shared, str) else shared)):
            raise ValueError("`shared` is empty: name a shared parameter, or leave it out.")
        self.reduction = reduction
        self.normalize = normalize
        self.task_gradients = task_gradients(model, engine, memory, decide, seed)
        self.parameters = self.task_gradients.parameters
        self.engine = self.task_gradients.engine
        self.partition = Partition.of(self.parameters.names, granularity)
        self.given_shared = (
            None if shared is None else matching("shared", shared, self.parameters.names)
        )
        self.task_gradients.group_by(
            [
                group if self.given_shared is None or name in self.given_shared else -1
                for name, group in zip(self.parameters.names, self.partition.index, strict=True)
            ]
        )
        self.generator = torch.Generator().manual_seed(seed)
        self._compared = False  # whether the first step with several tasks is over

    @abstractmethod
    def weigh(self, measured: Measured) -> torch.Tensor:
        """The weight of each task in each group, [G, T]; also updates the method's state."""

    def task_order(self, tasks: list[str]) -> list[str]:
        """The order in which the method sees a step's tasks: by name, whatever the user's order.

        tasks: as the user gave them; with several processes, as the first one did.
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
            self._compare_tasks(measured)
            plain = torch.ones(measured.grams.shape[:2], dtype=torch.float64, device="cpu")
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
            largest = max(map(abs, own.tolist() + weights.flatten().tolist()))
            finite = finite and (
                self.task_gradients.stays_finite(measured.reach, largest)
                or self.task_gradients.all_finite([p.grad for p in self.parameters.tensors])
            )
            self.engine.sync_buffers()
        except BaseException:
            put(self.parameters, before)
            self.load_state_dict(state)
            raise
        finally:
            self.task_gradients.forget()
        return self._report(measured, weights, order, time.perf_counter() - started, finite)

    def _state(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state(), **self.task_gradients.state_dict()}

    def _load(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"].cpu())
        self.task_gradients.load_state_dict(state)

    def _measure(self, bank: Bank) -> tuple[Measured, list[int], bool]:
        """The Gram matrices over shared parameters, the group of each of those (else -1), and
        whether all gradients are finite, those of heads too.
        """
        losses = self.task_gradients.checked_losses(bank)
        if not self.measure or (self.keeps_a_lone_task and len(bank.tasks) == 1):
            return self._unmeasured(bank, losses)
        products = self.task_gradients.dot_products(bank)
        groups = self._shared_groups(bank, self.task_gradients.reached(bank, products))
        grams = torch.zeros(
            len(self.partition.groups), *products.shape[1:], dtype=torch.float64, device="cpu"
        )
        present = torch.zeros(len(self.partition.groups), dtype=torch.bool, device="cpu")
        owner = torch.tensor(groups, device="cpu")
        shared = owner >= 0
        grams.index_add_(0, owner[shared], products[shared])
        present[owner[shared]] = True
        squares = products.diagonal(dim1=1, dim2=2)
        measured = Measured(
            tuple(bank.tasks),
            losses,
            grams,
            self.partition.groups,
            present,
            at_rest=(squares == 0).all(0),
            reach=float(squares.sum(0).sqrt().sum()),
        )
        return measured, groups, bool(torch.isfinite(products).all())

    def _compare_tasks(self, measured: Measured) -> None:
        """In the first step with several tasks: warn of two that have the same loss and gradient."""
        if self._compared or len(measured.tasks) < 2:
            return
        self._compared = True
        gram, losses = measured.grams.sum(0), measured.losses
        for i, j in combinations(range(len(measured.tasks)), 2):
            if losses[i] == losses[j] and gram[i, j] == gram[i, i] == gram[j, j] != 0:
                warnings.warn(
                    f"Tasks {measured.tasks[i]!r} and {measured.tasks[j]!r} have exactly the same loss "
                    "and gradient. If they are losses of a `lambda` in a loop, all of them see the "
                    "loop's last task: write functools.partial(loss_fn, model, task, batch).",
                    stacklevel=3,
                )
                return

    def _unmeasured(self, bank: Bank, losses: torch.Tensor) -> tuple[Measured, list[int], bool]:
        """What is known without reading the gradients: only the losses."""
        n_groups, n_tasks = len(self.partition.groups), len(bank.tasks)
        unknown = torch.full((n_groups, n_tasks, n_tasks), math.nan, dtype=torch.float64, device="cpu")
        present = torch.zeros(n_groups, dtype=torch.bool, device="cpu")
        moving = torch.zeros(n_tasks, dtype=torch.bool, device="cpu")
        groups = [-1] * len(self.parameters)
        if n_tasks == 1:
            groups = self._shared_groups(bank, bank.reached())
            present[[group for group in groups if group >= 0]] = True
        measured = Measured(tuple(bank.tasks), losses, unknown, self.partition.groups, present, moving)
        return measured, groups, bool(torch.isfinite(losses).all())

    def _shared_groups(self, bank: Bank, reached: list[int]) -> list[int]:
        """The group of each shared parameter, -1 for the others; `reached` by how many tasks."""
        least = min(2, len(bank.tasks))  # all that a lone task reaches counts as shared
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
        of_each = [weights[group] if group >= 0 else own for group in groups]
        return self.task_gradients.combined(bank, of_each)

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
    """Factors that scale the tasks' gradients to the mean length, [G, T, T] -> [T]; 1 for zero ones."""
    lengths = grams.sum(0).diagonal().clamp_min(0).sqrt()
    moving = lengths > 0
    return torch.where(moving, lengths.sum() / moving.sum().clamp_min(1) / lengths, 1.0)


def projection_order(n_tasks: int, generator: torch.Generator) -> torch.Tensor:
    """For each task i, the others in a random order: [T, T - 1]."""
    keys = torch.rand(n_tasks, n_tasks, generator=generator, dtype=torch.float32, device="cpu")
    keys.fill_diagonal_(2.0)  # the task itself comes last, and is cut off
    return keys.argsort(dim=1)[:, :-1]
