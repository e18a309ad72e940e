"""Run the tasks' losses backward, one after the other, and bank what comes out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch

from gradaccord.core.across import same_plan
from gradaccord.core.bank import Bank, Gradient, accumulate, compact, take
from gradaccord.core.displaced import buffers_of, preserved
from gradaccord.core.engine import Engine
from gradaccord.core.losses import OwnBatches, SharedBatch, SharedFn, read_loss, read_shared
from gradaccord.core.parameters import Parameters
from gradaccord.core.replay import RandomState
from gradaccord.core.sharding import Shards


class Collector:
    """Fills a bank from what `backward` was given. `.grad` must be None before, and is None after."""

    def __init__(self, parameters: Parameters, engine: Engine, shards: Shards | None) -> None:
        self.parameters = parameters
        self.engine = engine
        self.shards = shards
        # Where a graph cannot be kept, a shared batch is run again for each of its tasks.
        self.call_again = shards is not None

    def collect(self, batches: OwnBatches | SharedBatch) -> Bank:
        """One gradient per task, each of the task's mean loss over its micro-batches."""
        with self.engine.no_sync():
            if isinstance(batches, OwnBatches):
                return self._own(batches)
            return self._shared(batches)

    def _own(self, batches: OwnBatches) -> Bank:
        bank = Bank()
        for task in self._in_order({task: len(calls) for task, calls in batches.tasks.items()}):
            mean = _Mean(task, self.shards is not None)
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
                    self.engine.backward(mean.add(*loss))
            bank.add(task, self._reached(task, self._taken()), *mean.result())
        return bank

    def _in_order(self, plan: dict[str, int]) -> list[str]:
        """The tasks; under FSDP2 a pass is itself collective, so every process takes one order."""
        return list(plan) if self.shards is None else same_plan(plan, self.shards)

    def _shared(self, batches: SharedBatch) -> Bank:
        self._in_order({"shared batch": len(batches.calls)})
        means: dict[str, _Mean] = {}
        held: dict[str, list[Gradient | None]] = {}

        def backward(task: str, loss: tuple[torch.Tensor, float | None], retain: bool) -> None:
            with _named(task):
                self.engine.backward(means[task].add(*loss), retain_graph=retain)
            held[task] = accumulate(held.get(task), self._taken())

        for call in batches.calls:
            self._micro_batch(call, means, backward)
        bank = Bank()
        for task, mean in means.items():
            bank.add(task, self._reached(task, held.pop(task)), *mean.result())
        return bank

    def _micro_batch(
        self,
        call: SharedFn,
        means: dict[str, _Mean],
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
            means.setdefault(task, _Mean(task, self.shards is not None))
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
            with ExitStack() as stack:
                stack.enter_context(start.replayed())
                stack.enter_context(preserved(buffers_of(self.engine.model)))
                backward(task, read_shared(call())[task], False)

    def _taken(self) -> list[Gradient | None]:
        return compact(self.parameters, take(self.parameters))

    def _reached(self, task: str, gradients: list[Gradient | None]) -> list[Gradient | None]:
        """A task's gradients, if there is one: without any, training would stand still in silence."""
        if all(gradient is None for gradient in gradients):
            raise ValueError(
                f"Task {task!r} has a loss that reaches none of the method's {len(gradients)} "
                "parameters: build the method from the model that the loss is computed with, or leave "
                "out a task whose parameters are all frozen."
            )
        return gradients


@contextmanager
def _named(task: str) -> Iterator[None]:
    """Note on an exception of the user's own loss in which task it was raised."""
    try:
        yield
    except Exception as error:
        if repr(task) not in str(error):
            # What `add_note` does, which Python 3.10 has not.
            error.__dict__.setdefault("__notes__", []).append(f"This was in task {task!r}.")
        raise


class _Mean:
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
