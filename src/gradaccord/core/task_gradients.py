"""From the losses of a step to one gradient per task, of the joined batch of all processes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from gradaccord.core.bank import Bank, Gradient, accumulate, compact, is_finite, take
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
from gradaccord.core.parameters import Model, Parameters
from gradaccord.core.reduce import first_one, join, join_shards, same_tasks, sum_over
from gradaccord.core.replay import RandomState
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
        self._by_rows = True

    @contextmanager
    def by_rows(self, wanted: bool) -> Iterator[None]:
        """Whether embeddings are stored by rows in a block; alone, it costs a look at all of them."""
        self._by_rows = wanted or self.engine.group is not None
        try:
            yield
        finally:
            self._by_rows = True

    def of(self, losses: Losses) -> tuple[Bank, list[str]]:
        """Every task's gradient of the joined batch; and the tasks in the user's own order."""
        outcome = self.of_this_process(losses)
        order = list(outcome.tasks) if isinstance(outcome, Bank) else []
        bank = self.joined(outcome)
        if isinstance(losses, Mapping):
            order = list(losses)
        return bank, order + [task for task in bank.tasks if task not in order]

    def of_this_process(self, losses: Losses, engine: Engine | None = None) -> Bank | Exception:
        """This process's own bank; under DDP an exception is kept until the others know of it.

        engine: runs the losses backward instead of the method's own.
        """
        weights_moved()  # the user's optimiser may have stepped in this very autocast region
        engine = engine or self.engine
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
            if self.engine.group is None:
                raise
            return error

    def _check_parameters(self) -> None:
        """Raise if the model has trainable parameters that were not there when the method was built."""
        if self.engine.model is None or self.shards is not None:  # FSDP2 swaps them by itself
            return
        known = {id(tensor) for tensor in self.parameters.tensors}  # not kept: a copy has others
        for name, parameter in self.engine.model.named_parameters():
            if parameter.requires_grad and id(parameter) not in known:
                raise ValueError(
                    f"Parameter {name!r} is not one of those that the method was built with: build the "
                    "method after replacing or adding parameters."
                )

    def _own_batches(self, batches: OwnBatches, engine: Engine) -> Bank:
        """One forward and backward pass for each micro-batch of each task."""
        bank = Bank()
        for task in self._in_order({task: len(calls) for task, calls in batches.tasks.items()}):
            mean = _MeanLoss(task, self.shards is not None)
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
                    engine.backward(mean.add(*loss))
            bank.add(task, self._reached(task, self._taken()), *mean.result())
        return bank

    def _in_order(self, micro_batches: dict[str, int]) -> list[str]:
        """The tasks; under FSDP2 a pass is itself collective, so every process takes one order."""
        return list(micro_batches) if self.shards is None else same_tasks(micro_batches, self.shards)

    def _shared_batch(self, batches: SharedBatch, engine: Engine) -> Bank:
        """One forward pass for all tasks, then a backward pass for each."""
        self._in_order({"shared batch": len(batches.calls)})
        means: dict[str, _MeanLoss] = {}
        held: dict[str, list[Gradient | None]] = {}

        def backward(task: str, loss: tuple[torch.Tensor, float | None], retain: bool) -> None:
            with _named(task):
                engine.backward(means[task].add(*loss), retain_graph=retain)
            held[task] = accumulate(held.get(task), self._taken())

        for call in batches.calls:
            self._shared_micro_batch(call, means, backward)
        bank = Bank()
        for task, mean in means.items():
            bank.add(task, self._reached(task, held.pop(task)), *mean.result())
        return bank

    def _shared_micro_batch(
        self,
        call: SharedFn,
        means: dict[str, _MeanLoss],
        backward: Callable[[str, tuple[torch.Tensor, float | None], bool], None],
    ) -> None:
        start = RandomState.capture(self.parameters.tensors)
        losses = read_shared(call())
        tasks = self._in_order(dict.fromkeys(losses, 1))
        if means and set(tasks) != set(means):
            raise ValueError(
                f"A micro-batch returned the tasks {sorted(tasks)} after one that returned "
                f"{sorted(means)}: all micro-batches of a shared batch must give the same tasks."
            )
        for task in tasks:
            means.setdefault(task, _MeanLoss(task, self.shards is not None))
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
        if self.engine.group is not None:
            return join(outcome, self.parameters.tensors, self.engine.group)
        assert isinstance(outcome, Bank)
        return outcome if self.shards is None else join_shards(outcome, self.shards)

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
        products = gram(bank.gradients)
        self.sum_over_processes(products)
        factors = torch.tensor(bank.factors, dtype=torch.float64, device="cpu") / self.engine.scale()
        return products * factors[:, None] * factors[None, :]

    def sum_over_processes(self, products: torch.Tensor) -> None:
        """Dot products of all processes' parts, the same everywhere to the last bit."""
        if self.shards is not None:
            for group in self.shards.parts:
                sum_over(products, group, self.shards.device)
            for group in self.shards.copies:
                first_one(products, group, self.shards.device)
        elif self.engine.group is not None:
            first_one(products, self.engine.group, self.parameters.tensors[0].device)

    def all_finite(self, gradients: Sequence[Gradient | None]) -> bool:
        """Whether these hold neither inf nor NaN; the same answer on every process."""
        found: dict[torch.device, list[torch.Tensor]] = {}
        for gradient in gradients:
            if gradient is not None:
                good = is_finite(gradient)
                found.setdefault(good.device, []).append(good)
        bad = [not bool(torch.stack(good).all()) for good in found.values()]  # one look at each device
        count = torch.tensor([float(sum(bad))], dtype=torch.float64, device="cpu")
        self.sum_over_processes(count)
        return not bool(count)


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


class _MeanLoss:
    """The mean loss of one task over its micro-batches, each weighted by its number of items.

    The total is unknown until the last micro-batch, so gradients are stored in units of the first
    one's count (which keeps them near their true size) and the rest is left to the bank's factor.
    Under FSDP2 the unit must agree between processes before they have met: it is 1.
    """

    def __init__(self, task: str, unit_is_one: bool) -> None:
        self.task = task
        self.unit = 1.0
        self.unit_is_one = unit_is_one
        self.items = 0.0
        self.counted: bool | None = None
        self.loss = torch.zeros((), device="cpu")
        self.last: tuple[float, torch.Tensor] = (0.0, self.loss)

    def add(self, loss: torch.Tensor, items: float | None) -> torch.Tensor:
        """Count a micro-batch in; what is returned is to be run backward."""
        if self.counted is None:
            self.counted = items is not None
            if items is not None and not self.unit_is_one:
                self.unit = items
        elif self.counted != (items is not None):
            raise ValueError(
                f"Task {self.task!r} returned the number of items for some micro-batches and not "
                "for others: return it always or never."
            )
        count = 1.0 if items is None else items
        self.last = (self.items, self.loss)
        self.items += count
        self.loss = self.loss.to(loss.device) + loss.detach().reshape(()) * count
        return loss if count == self.unit else loss * (count / self.unit)

    def result(self) -> tuple[float, torch.Tensor, float]:
        """The factor from what is stored to the mean's gradient, the mean loss, and its items."""
        return self.unit / self.items, self.loss / self.items, self.items

    def undo(self) -> None:
        """Take the last micro-batch back."""
        self.items, self.loss = self.last
