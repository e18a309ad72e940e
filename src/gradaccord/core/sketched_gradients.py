"""`memory="sketch"`: a sketch of each task's gradient decides, and a second pass gives the gradient."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import torch

from gradaccord.core.bank import (
    Bank,
    Gradient,
    Rows,
    accumulate,
    as_real,
    deliver,
    weighted_sum,
)
from gradaccord.core.engine import Engine
from gradaccord.core.gram import gram
from gradaccord.core.losses import Losses, SharedBatch, read_shared
from gradaccord.core.mean_loss import MeanLoss
from gradaccord.core.overlap import join
from gradaccord.core.parameters import Model
from gradaccord.core.reduce import gathered
from gradaccord.core.replay import RandomState
from gradaccord.core.sharding import local
from gradaccord.core.sketch import FOLD, Key, Sketch
from gradaccord.core.task_gradients import TaskGradients
from gradaccord.core.temporary_weights import buffers_of, preserved
from gradaccord.core.weighted_gradient import sum_of_losses

SMALL = 4096  # gradients of at most this many numbers are kept whole
SAME_LOSS = 0.01  # a loss that moves by more between two calls is another one

Sketches: TypeAlias = dict[Key, torch.Tensor]


@dataclass
class _Step:
    """What is known of a step between its two passes."""

    losses: Losses
    random: RandomState
    buffers: list[tuple[torch.Tensor, torch.Tensor]]  # each with its values before the first pass
    sketch: Sketch
    owner: dict[int, str] = field(default_factory=dict)  # the task that reached a parameter first
    sketched: set[int] = field(default_factory=set)  # positions that the bank has not, but sketches
    sketches: dict[str, Sketches] = field(default_factory=dict)  # by task and group
    arrived: Sketches = field(default_factory=dict)  # of the task that is being run
    shares: dict[str, float] = field(default_factory=dict)  # from what a backward pass gives, by task
    means: dict[str, float] = field(default_factory=dict)  # this process's losses


class SketchedGradients(TaskGradients):
    """Keeps a whole gradient only if it is small, stored by rows, or its parameter has one task.

    As soon as a second task reaches a large parameter, only sketches are kept: the first task's
    gradient is replaced by its sketch, and every later one while its backward pass still runs.
    Memory: T/16 gradients, and the one that is summed up.
    """

    sends_early = False  # sums that wait to be taken are whole gradients

    def __init__(self, model: Model, engine: Any = None, seed: int = 0) -> None:
        super().__init__(model, engine)
        self.generator = torch.Generator().manual_seed(seed)
        self.small = SMALL
        self.groups: Sequence[int] = [0] * len(self.parameters)
        self._step: _Step | None = None

    @property
    def _now(self) -> _Step:
        assert self._step is not None
        return self._step

    def group_by(self, groups: Sequence[int]) -> None:
        self.groups = groups

    def of(self, losses: Losses) -> tuple[Bank, list[str]]:
        seed = int(torch.randint(2**48, (), generator=self.generator, device="cpu"))
        if self.shards is not None:  # each part has signs of its own
            seed += sum(group.rank() << 49 for group in self.shards.parts)
        sketch = Sketch(seed, self.parameters.tensors, self.groups)
        buffers = [(b, b.detach().clone()) for b in buffers_of(self.engine.model)]
        random = RandomState.capture(self.parameters.tensors)
        self._step = _Step(losses, random, buffers, sketch)
        return super().of(losses)

    def forget(self) -> None:
        self._step = None

    def state_dict(self) -> dict[str, Any]:
        return {"sketches": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if "sketches" in state:  # else it was saved by a run that kept whole gradients
            self.generator.set_state(state["sketches"].cpu())

    # The first pass

    def _backward(self, task: str, engine: Engine, loss: torch.Tensor, retain: bool = False) -> None:
        step = self._now
        others = (i for i, owner in step.owner.items() if owner != task or i in step.sketched)
        watched = [i for i in others if self._is_large(i)]
        try:
            with _at_arrival(self.parameters.tensors, watched, partial(self._arrive, task)):
                engine.backward(loss, retain_graph=retain)
        except BaseException:
            step.arrived.clear()
            raise

    def _arrive(self, task: str, position: int, parameter: torch.Tensor) -> None:
        """Replace a gradient that the backward pass has just finished by its sketch."""
        given = parameter.grad
        if given is None or given.is_sparse:
            return
        gradient = local(given)
        if self._meets(task, position, gradient):
            self._now.sketch.add(self._now.arrived, position, gradient)
            parameter.grad = None

    def _meets(self, task: str, position: int, gradient: Gradient) -> bool:
        """Whether the gradients of two tasks come together here, and are too large to be kept."""
        step = self._now
        if position in step.sketched:
            return True
        if self._is_small(gradient) or step.owner.get(position, task) == task or _is_zero(gradient):
            return False
        step.sketched.add(position)
        return True

    def _is_large(self, position: int) -> bool:
        """Whether gradients that come whole are sketched as they come."""
        large = self.parameters.tensors[position].numel() > self.small
        return large and position not in self.parameters.embeddings

    def _is_small(self, gradient: Gradient) -> bool:
        """Whether a gradient is no larger than its sketch would be, or not worth one."""
        if isinstance(gradient, Rows):
            return gradient.values.numel() <= max(self.small, gradient.shape.numel() // FOLD)
        return gradient.numel() <= self.small

    def _keep(self, task: str, held: dict[str, list[Gradient | None]]) -> None:
        step = self._now
        new = self._taken()
        for position, gradient in enumerate(new):
            if gradient is None:
                continue
            if self._meets(task, position, gradient):
                step.sketch.add(step.arrived, position, gradient)
                new[position] = None
            elif position not in step.owner and not _is_zero(gradient):
                step.owner[position] = task
        held[task] = accumulate(held.get(task), new)
        for name, gradients in held.items():
            self._sketch_all(name, gradients)
        self._add(task, step.arrived)
        step.arrived = {}

    def _sketch_all(self, task: str, gradients: list[Gradient | None]) -> None:
        """Sketch what is held whole at the positions that have sketches."""
        step = self._now
        for position in step.sketched:
            held = gradients[position]
            if held is not None:
                step.sketch.add(step.sketches.setdefault(task, {}), position, held)
                gradients[position] = None

    def _add(self, task: str, new: Sketches) -> None:
        known = self._now.sketches.setdefault(task, {})
        for key, sketch in new.items():
            known[key] = sketch if key not in known else known[key].add_(sketch)

    def _reached(self, task: str, gradients: list[Gradient | None]) -> list[Gradient | None]:
        return gradients if self._now.sketches.get(task) else super()._reached(task, gradients)

    def joined(self, outcome: Bank | Exception) -> Bank:
        step, group = self._now, self.engine.group
        groups = () if self.shards is None else self.shards.groups
        if group is not None or groups:
            self._agree(outcome, groups if group is None else (group,))
        assert isinstance(outcome, Bank)  # else all have raised
        for task, gradients in zip(outcome.tasks, outcome.gradients, strict=True):
            self._sketch_all(task, gradients)
        step.means = {t: float(x) for t, x in zip(outcome.tasks, outcome.losses, strict=True)}
        if group is None:
            bank = super().joined(outcome)
            step.shares = dict(zip(bank.tasks, bank.factors, strict=True))
            return bank
        counted = [f * n for f, n in zip(outcome.factors, outcome.items, strict=True)]
        own = dict(zip(outcome.tasks, counted, strict=True))
        bank = self._join(outcome, group)
        items = dict(zip(bank.tasks, bank.items, strict=True))
        step.shares = {task: counted / items[task] for task, counted in own.items()}
        return bank

    def _agree(self, outcome: Bank | Exception, groups: Sequence[Any]) -> None:
        """What is sketched on one process, or reached by other tasks on another, is on all of them."""
        step = self._now
        mine: Any = outcome
        if isinstance(outcome, Bank):
            rows = {i for own in outcome.gradients for i, g in enumerate(own) if isinstance(g, Rows)}
            mine = ({i: t for i, t in step.owner.items() if i not in rows}, step.sketched)
        owners: dict[int, str] = {}
        for others, sketched in gathered(mine, groups):
            step.sketched |= sketched
            for position, task in others.items():
                large = self.parameters.tensors[position].numel() > self.small
                if owners.setdefault(position, task) != task and large:
                    step.sketched.add(position)

    def _join(self, bank: Bank, group: Any) -> Bank:
        """Sum gradients and sketches over processes, the sketches as if they were more parameters."""
        step, n = self._now, len(self.parameters)
        keys = sorted({step.sketch.keys[i] for i in step.sketched}, key=step.sketch.keys.index)
        forms = [torch.zeros((), device=d, dtype=t) for _, d, t in keys]
        sized = [form.expand(step.sketch.size(k)) for form, k in zip(forms, keys, strict=True)]
        for task, gradients in zip(bank.tasks, bank.gradients, strict=True):
            gradients += [step.sketches.get(task, {}).get(key) for key in keys]
        step.sketches = {}
        joined = join(bank, [*self.parameters.tensors, *sized], group)
        for task, gradients in zip(joined.tasks, joined.gradients, strict=True):
            pairs = zip(keys, gradients[n:], strict=True)
            step.sketches[task] = {k: g for k, g in pairs if isinstance(g, torch.Tensor)}
            del gradients[n:]
        return joined

    def _products(self, bank: Bank) -> torch.Tensor:
        """Dot products; those of a group's sketches stand at the first position that has none."""
        step = self._now
        products = super()._products(bank)
        seen: set[Key] = set()
        for position in sorted(step.sketched):
            key = step.sketch.keys[position]
            if key not in seen:
                seen.add(key)
                column = [[step.sketches.get(task, {}).get(key)] for task in bank.tasks]
                products[position] += gram(column)[0]
        return products

    def reached(self, bank: Bank, products: torch.Tensor) -> list[int]:
        counts = super().reached(bank, products)
        return [max(n, 2) if i in self._now.sketched else n for i, n in enumerate(counts)]

    # The second pass

    def combined(self, bank: Bank, weights: Sequence[list[float]]) -> list[torch.Tensor | None]:
        step = self._now
        step.sketches = {}
        found = super().combined(bank, weights)
        if not step.sketched:
            return found
        index = {task: bank.tasks.index(task) for task in step.shares}
        again = _SecondPass(
            self,
            {
                task: {i: weights[i][index[task]] * share for i in step.sketched}
                for task, share in step.shares.items()
            },
        )
        with _as_it_was(step):
            outcome = again.of_this_process(step.losses)
            if isinstance(outcome, Bank):
                outcome = self._checked(outcome)
        totals = [again.totals.get(i) for i in range(len(self.parameters))]
        summed = self.summed(outcome if isinstance(outcome, Exception) else totals)
        for position in step.sketched:
            found[position] = deliver(self.parameters.tensors[position], summed[position])
        return found

    def _checked(self, again: Bank) -> Bank | Exception:
        """Refuse a callable that returns a different loss when it is called again."""
        for task, value in zip(again.tasks, again.losses, strict=True):
            first, second = self._now.means[task], float(value)
            if abs(first - second) > SAME_LOSS * max(abs(first), abs(second)) + 1e-6:
                error = ValueError(
                    f"Task {task!r} gave the loss {first:g} and, called again, {second:g}: with "
                    "`memory='sketch'` every loss is run twice and must be the same; draw its batch "
                    "before the call, or use `memory='half'`."
                )
                if self.engine.group is None:
                    raise error
                return error
        return again


class _SecondPass(TaskGradients):
    """Runs the losses once more and adds the gradients up, each with its task's weight there.

    weights: by task and position, of all positions that are wanted.
    """

    def __init__(self, first: TaskGradients, weights: Mapping[str, Mapping[int, float]]) -> None:
        vars(self).update(vars(first))  # the same model, engine and processes
        self._by_rows = self.engine.group is not None  # nothing is kept, so that rows save no memory
        self.weights = weights
        self.wanted = list(next(iter(weights.values())))
        self.totals: dict[int, Gradient] = {}

    def _backward(self, task: str, engine: Engine, loss: torch.Tensor, retain: bool = False) -> None:
        with _at_arrival(self.parameters.tensors, self.wanted, partial(self._arrive, task)):
            engine.backward(loss, retain_graph=retain)

    def _arrive(self, task: str, position: int, parameter: torch.Tensor) -> None:
        if parameter.grad is not None and not parameter.grad.is_sparse:
            self._add(task, position, local(parameter.grad))
            parameter.grad = None

    def _add(self, task: str, position: int, gradient: Gradient) -> None:
        term = (gradient, self.weights[task][position])
        old = self.totals.get(position)
        self.totals[position] = weighted_sum([term] if old is None else [(old, 1.0), term])

    def _keep(self, task: str, held: dict[str, list[Gradient | None]]) -> None:
        for position, gradient in enumerate(self._taken()):
            if gradient is not None and position in self.weights[task]:
                self._add(task, position, gradient)
        held[task] = []

    def _reached(self, task: str, gradients: list[Gradient | None]) -> list[Gradient | None]:
        return gradients  # the first pass has looked

    def _shared_batch(self, batches: SharedBatch, engine: Engine) -> Bank:
        """One forward and one backward pass, unless weights differ between parameters."""
        if any(len(set(own.values())) > 1 for own in self.weights.values()):
            return super()._shared_batch(batches, engine)
        weights = {task: next(iter(own.values())) for task, own in self.weights.items()}
        means: dict[str, MeanLoss] = {}
        for call in batches.calls:
            terms = {}
            for task, loss in read_shared(call()).items():
                mean = means.setdefault(task, self._mean_loss(task))
                terms[task] = mean.add(*loss)
            engine.backward(sum_of_losses(terms, weights))
        gradients = self._taken()
        self.totals = {i: g for i in self.wanted if (g := gradients[i]) is not None}
        bank = Bank()
        for task, mean in means.items():
            bank.add(task, [], *mean.result())
        return bank


@contextmanager
def _at_arrival(tensors: Sequence[torch.Tensor], positions: Iterable[int], call: Any) -> Iterator[None]:
    """In a block, call with position and parameter whenever a backward pass has set its `.grad`."""
    hooks = [
        tensors[i].register_post_accumulate_grad_hook(partial(call, i))  # type: ignore[no-untyped-call]
        for i in positions
        if tensors[i].requires_grad
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _as_it_was(step: _Step) -> Iterator[None]:
    """A block with the random state and the buffers from before the first pass."""
    with preserved([buffer for buffer, _ in step.buffers]), step.random.replayed():
        for buffer, before in step.buffers:
            buffer.data.copy_(before)
        yield


def _is_zero(gradient: Gradient) -> bool:
    values = as_real(gradient.values if isinstance(gradient, Rows) else gradient)
    if not values.numel():
        return True
    if values.reshape(-1)[:FOLD].any():  # as a rule, which saves a look at all of them
        return False
    least, most = torch.aminmax(values)
    return bool((least == 0) & (most == 0))
