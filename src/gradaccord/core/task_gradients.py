"""From the losses of a step to one gradient per task, of the joined batch of all processes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from gradaccord.core import failures
from gradaccord.core.bank import (
    Bank,
    Gradient,
    accumulate,
    compact,
    deliver,
    is_finite,
    sums_up,
    take,
)
from gradaccord.core.engine import Engine, as_engine
from gradaccord.core.gram import gram
from gradaccord.core.losses import (
    Losses,
    OwnBatches,
    SharedBatch,
    SharedFn,
    extras_of,
    read_loss,
    read_losses,
    read_shared,
)
from gradaccord.core.mean_loss import MeanLoss
from gradaccord.core.overlap import Known, Reduction, join, unit_of
from gradaccord.core.parameters import Model, Parameters
from gradaccord.core.reduce import first_one, join_shards, same_tasks, sum_over
from gradaccord.core.replay import RandomState
from gradaccord.core.reused_memory import SpareMemory
from gradaccord.core.sharding import shards_of
from gradaccord.core.temporary_weights import buffers_of, preserved, weights_moved


class LossNotFiniteError(ValueError):
    """A task's loss is inf or NaN, and no scaler is there to skip the step."""

    def __init__(self, task: str, loss: float) -> None:
        super().__init__(
            f"Task {task!r} has the loss {loss}: `.grad` and the method are as before; "
            "with float16, pass engine=GradScaler() to skip such steps."
        )
        self.task = task


class TaskGradients:
    """What every method stands on: it runs the losses, and gives the same bank on every process.

    `.grad` must be None before, and is None after.
    """

    sends_early = True  # under DDP: a task's gradients are summed while the next one runs

    def __init__(self, model: Model, engine: Any = None) -> None:
        if not isinstance(model, nn.Module) and isinstance(model, Iterable):
            model = list(model)
        self.parameters = Parameters.of(model)
        self.engine = as_engine(model, engine)
        self.shards = shards_of(self.parameters.names, self.parameters.tensors)
        # Where a graph cannot be kept, a shared batch is run again for each of its tasks.
        self.call_again = self.shards is not None
        self.extras: dict[str, float] = {}  # what wrapped losses reported in the last run
        self.scratch: dict[int, torch.Tensor] = {}  # memory in which `displaced` keeps its copies
        self._spare = SpareMemory(self.parameters.tensors)
        self._by_rows = True
        self._largest = min(
            torch.finfo(t.dtype).max
            for t in self.parameters.tensors
            if t.is_floating_point() or t.is_complex()
        )
        self._known: dict[str, Known] = {}  # under DDP: the tasks' gradients in earlier steps
        self._sums: Reduction | None = None  # of the step that is running
        self._told = False  # under FSDP2: whether the last step failed here, which the others can read

    @contextmanager
    def by_rows(self, wanted: bool) -> Iterator[None]:
        """Whether embeddings are stored by rows in a block; alone, it costs a look at all of them."""
        before = self._by_rows
        self._by_rows = wanted or self.engine.group is not None
        try:
            yield
        finally:
            self._by_rows = before

    def of(self, losses: Losses) -> tuple[Bank, list[str]]:
        """Every task's gradient of the joined batch; and the tasks in the user's own order."""
        self._sums = self._reduction()
        try:
            outcome = self.of_this_process(losses)
            order = list(outcome.tasks) if isinstance(outcome, Bank) else []
            bank = self.joined(outcome)
        finally:
            self._sums = None
        if isinstance(losses, Mapping):
            order = list(losses)
        return bank, order + [task for task in bank.tasks if task not in order]

    def group_by(self, groups: Sequence[int]) -> None:
        """Learn which parameters are measured as one vector: the group of each."""

    def forget(self) -> None:
        """Let go of what is remembered of a step; called at its end, also after an error."""

    def state_dict(self) -> dict[str, Any]:
        """What a run must save to continue exactly."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""

    def of_this_process(self, losses: Losses, engine: Engine | None = None) -> Bank | Exception:
        """This process's own bank; under DDP an exception is kept until the others know of it.

        engine: runs the losses backward instead of the method's own.
        """
        weights_moved()  # the user's optimiser may have stepped in this very autocast region
        engine = engine or self.engine
        if self._told:
            failures.take_back()
            self._told = False
        try:
            self._check_parameters()
            try:
                batches = read_losses(losses)
            except Exception as error:
                if self.shards is not None:
                    same_tasks(error, self.shards)
                raise
            with engine.no_sync():
                if isinstance(batches, OwnBatches):
                    bank = self._own_batches(batches, engine)
                else:
                    bank = self._shared_batch(batches, engine)
            self.extras = extras_of(batches)
            return bank
        except Exception as error:
            if self.engine.group is not None:
                return error
            if self.shards is None:
                raise
            self._told = True
            said = failures.alone(error)
            if said is error:
                raise
            raise said from error

    def _check_parameters(self) -> None:
        """Raise if the model has trainable parameters that were not there when the method was built."""
        if self.engine.model is None or self.shards is not None:  # FSDP2 swaps them by itself
            return
        known = {id(tensor) for tensor in self.parameters.tensors}  # not kept: a copy has others
        if all(id(p) in known or not p.requires_grad for p in _parameters_below(self.engine.model)):
            return
        name = next(
            name
            for name, parameter in self.engine.model.named_parameters()
            if parameter.requires_grad and id(parameter) not in known
        )
        raise ValueError(
            f"Parameter {name!r} is not one of those that the method was built with: build the "
            "method after replacing or adding parameters."
        )

    def _own_batches(self, batches: OwnBatches, engine: Engine) -> Bank:
        """One forward and backward pass for each micro-batch of each task."""
        bank = Bank()
        self._meet(list(batches.tasks))
        with self.by_rows(self._by_rows and len(batches.tasks) > 1):  # alone, nothing is compared
            self._run_tasks(batches, engine, bank)
        return bank

    def _run_tasks(self, batches: OwnBatches, engine: Engine, bank: Bank) -> None:
        held: dict[str, list[Gradient | None]] = {}
        for task in self._in_order({task: len(calls) for task, calls in batches.tasks.items()}):
            mean = self._mean_loss(task)
            self._spare.release(task)
            with _named(task):
                for call in batches.tasks[task]:
                    before = [p.grad for p in self.parameters.tensors]
                    loss = read_loss(task, call())
                    if any(
                        p.grad is not g for p, g in zip(self.parameters.tensors, before, strict=True)
                    ):
                        raise ValueError(
                            f"Task {task!r} has changed `.grad` by itself: its callable must return "
                            "the loss, and call neither backward() nor zero_grad()."
                        )
                    self._backward(task, engine, mean.add(*loss))
            self._keep(task, held)
            bank.add(task, self._reached(task, held[task]), *mean.result())
            self._send(mean, bank.gradients[-1])

    def _reduction(self) -> Reduction | None:
        """What sums this step's gradients over processes while its tasks run (DDP)."""
        group, parameters = self.engine.group, self.parameters
        if group is None or not self.sends_early:
            return None
        return Reduction(parameters.tensors, parameters.embeddings, group, self._known)

    def _meet(self, tasks: list[str]) -> None:
        """Under DDP: agree with the other processes on the tasks of the step."""
        if self._sums is not None and not self._sums.met:
            self._sums.agree(tasks)

    def _mean_loss(self, task: str) -> MeanLoss:
        if self.engine.group is None:
            return MeanLoss(task, _one if self.shards is not None else float)
        return MeanLoss(task, partial(unit_of, self._known, task))

    def _send(self, mean: MeanLoss, gradients: list[Gradient | None]) -> None:
        """Under DDP: a task is done, and its gradients can be summed while the next one runs."""
        if self._sums is not None:
            self._sums.add(mean.task, gradients, mean.unit)

    def _backward(self, task: str, engine: Engine, loss: torch.Tensor, retain: bool = False) -> None:
        """Run a task's loss backward."""
        engine.backward(loss, retain_graph=retain)

    def _keep(self, task: str, held: dict[str, list[Gradient | None]]) -> None:
        """Add what a task's backward passes left in `.grad` to what is held of it."""
        held[task] = accumulate(held.get(task), self._taken())

    def _in_order(self, micro_batches: dict[str, int]) -> list[str]:
        """The tasks; under FSDP2 a pass is itself collective, so every process takes one order."""
        return list(micro_batches) if self.shards is None else same_tasks(micro_batches, self.shards)

    def _shared_batch(self, batches: SharedBatch, engine: Engine) -> Bank:
        """One forward pass for all tasks, then a backward pass for each."""
        self._in_order({"shared batch": len(batches.calls)})
        means: dict[str, MeanLoss] = {}
        held: dict[str, list[Gradient | None]] = {}

        def backward(task: str, loss: tuple[torch.Tensor, float | None], retain: bool) -> None:
            self._spare.release(task)
            with _named(task):
                self._backward(task, engine, means[task].add(*loss), retain)
            self._keep(task, held)
            if number == len(batches.calls):
                self._send(means[task], self._reached(task, held[task]))

        for number, call in enumerate(batches.calls, 1):  # noqa: B007 (which `backward` looks at)
            self._shared_micro_batch(call, means, backward)
        bank = Bank()
        for task, mean in means.items():
            bank.add(task, held.pop(task), *mean.result())
        return bank

    def _shared_micro_batch(
        self,
        call: SharedFn,
        means: dict[str, MeanLoss],
        backward: Callable[[str, tuple[torch.Tensor, float | None], bool], None],
    ) -> None:
        start = RandomState.capture(self.parameters.tensors)
        losses = read_shared(call())
        self._meet(list(losses))
        tasks = self._in_order(dict.fromkeys(losses, 1))
        if means and set(tasks) != set(means):
            raise ValueError(
                f"A micro-batch returned the tasks {sorted(tasks)} after one that returned "
                f"{sorted(means)}: all micro-batches of a shared batch must give the same tasks."
            )
        for task in tasks:
            means.setdefault(task, self._mean_loss(task))
        done = 0
        if not self.call_again:
            try:
                for task in tasks:
                    backward(task, losses[task], task != tasks[-1])
                    done += 1
                return
            except RuntimeError as error:
                if "donated buffer" not in str(error):
                    raise
                self.call_again = True
                take(self.parameters)
                means[tasks[done]].undo()  # those before it went through no compiled code, and are done
                warnings.warn(
                    "torch.compile does not let a graph be used twice: the shared batch is run "
                    "forward once per task from here on (same result, more time).",
                    stacklevel=2,
                )
        else:
            backward(tasks[0], losses[tasks[0]], False)
            done = 1
        del losses
        for task in tasks[done:]:
            with start.replayed(), preserved(buffers_of(self.engine.model)):
                backward(task, read_shared(call())[task], False)

    def _taken(self) -> list[Gradient | None]:
        """What the last backward passes left in `.grad`, in the form that the bank keeps."""
        return compact(self.parameters, take(self.parameters), by_rows=self._by_rows)

    def _reached(self, task: str, gradients: list[Gradient | None]) -> list[Gradient | None]:
        """A task's gradients; without a single one, training would silently do nothing."""
        if all(gradient is None for gradient in gradients):
            raise ValueError(
                f"Task {task!r} has a loss that reaches none of the method's {len(gradients)} "
                "parameters: build the method from the model that the loss is computed with, or leave "
                "out a task whose parameters are all frozen."
            )
        return gradients

    def joined(self, outcome: Bank | Exception) -> Bank:
        """The bank of the joined batch from this process's own."""
        sums = self._sums or self._reduction()
        if sums is not None:
            return sums.finish(outcome)
        assert isinstance(outcome, Bank)
        return outcome if self.shards is None else join_shards(outcome, self.shards)

    def summed(self, outcome: list[Gradient | None] | Exception) -> list[Gradient | None]:
        """One gradient, summed over processes (DDP); an exception of one of them is raised on all."""
        group = self.engine.group
        if group is None:
            assert not isinstance(outcome, Exception)
            return outcome
        bank: Bank | Exception
        if isinstance(outcome, Exception):
            bank = outcome
        else:
            bank = Bank()
            bank.add("all tasks", outcome, 1.0, torch.zeros((), device="cpu"), 1.0)
        (gradients,) = join(bank, self.parameters.tensors, group).gradients
        return gradients

    def checked_losses(self, bank: Bank) -> torch.Tensor:
        """The tasks' mean losses, [T] in float64 on CPU; one that is not finite is refused."""
        losses = torch.stack([loss.detach().cpu().to(torch.float64) for loss in bank.losses])
        if not self.engine.skips_bad_steps:
            for task, loss in zip(bank.tasks, losses.tolist(), strict=True):
                if not math.isfinite(loss):
                    raise LossNotFiniteError(task, loss)
        return losses

    def dot_products(self, bank: Bank) -> torch.Tensor:
        """The Gram matrix of the tasks' gradients for each parameter, [P, T, T], without loss scale."""
        products = self._products(bank)
        self.sum_over_processes(products)
        factors = torch.tensor(bank.factors, dtype=torch.float64, device="cpu") / self.engine.scale()
        return products * factors[:, None] * factors[None, :]

    def _products(self, bank: Bank) -> torch.Tensor:
        """Dot products of what this process has stored."""
        return gram(bank.gradients)

    def reached(self, bank: Bank, products: torch.Tensor) -> list[int]:
        """How many tasks reach each parameter.

        A gradient of zeros does not count: a compiled model gives zeros, not None, to the heads of the
        other tasks.
        """
        reached: list[int] = (products.diagonal(dim1=1, dim2=2) != 0).sum(1).tolist()
        if max(reached) < min(2, len(bank.tasks)):  # all tasks but one are at rest
            return bank.reached()
        return reached

    def combined(self, bank: Bank, weights: Sequence[list[float]]) -> list[torch.Tensor | None]:
        """The `.grad` of every parameter: the sum of the tasks' gradients, which leave the bank.

        weights: those of the tasks, for each parameter.
        """
        self._spare.keep(bank)
        return list(map(deliver, self.parameters.tensors, bank.combine_all(weights)))

    def sum_over_processes(self, products: torch.Tensor) -> None:
        """Dot products of all processes' parts, the same everywhere to the last bit."""
        if self.shards is not None:
            for group in self.shards.parts:
                sum_over(products, group, self.shards.device)
            for group in self.shards.copies:
                first_one(products, group, self.shards.device)
        elif self.engine.group is not None:
            first_one(products, self.engine.group, self.parameters.tensors[0].device)

    def stays_finite(self, reach: float, weight: float) -> bool:
        """Whether no weighted sum of gradients can overflow: one that need not be looked at.

        reach: the sum of the gradients' lengths, without loss scale; NaN where it is unknown.
        weight: the largest in size. Values whose squares are lost to float32 are below 1e-18.
        """
        return weight * (reach + 1e-18) * self.engine.scale() < self._largest / 2

    def all_finite(self, gradients: Sequence[Gradient | None]) -> bool:
        """Whether these hold neither inf nor NaN; the same answer on every process."""
        present = [gradient for gradient in gradients if gradient is not None]
        good = _all(map(sums_up, present)) or _all(map(is_finite, present))
        count = torch.tensor([0.0 if good else 1.0], dtype=torch.float64, device="cpu")
        self.sum_over_processes(count)
        return not bool(count)


def _all(checks: Iterable[torch.Tensor]) -> bool:
    """Whether all of these are true, with one look at each device."""
    found: dict[torch.device, list[torch.Tensor]] = {}
    for check in checks:
        found.setdefault(check.device, []).append(check)
    return all(bool(torch.stack(good).all()) for good in found.values())


def _parameters_below(module: nn.Module) -> Iterator[torch.Tensor]:
    """All parameters, without the names that `named_parameters` would make for each."""
    waiting, seen = [module], {id(module)}
    while waiting:
        module = waiting.pop()
        yield from (p for p in module._parameters.values() if p is not None)
        for child in module._modules.values():
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                waiting.append(child)


def _one(items: float) -> float:
    return 1.0


@contextmanager
def _named(task: str) -> Iterator[None]:
    """Note on an exception of the user's own loss in which task it was raised."""
    try:
        yield
    except Exception as error:
        if repr(task) not in str(error):
            # What `add_note` does from Python 3.11 on.
            error.__dict__.setdefault("__notes__", []).append(f"This was in task {task!r}.")
        raise
