"""Do the tasks' gradients conflict, or is it only batch noise? Cosines with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, TypeAlias

import torch
from torch import nn

from gradaccord.core.bank import Bank, Gradient, Rows, put, take
from gradaccord.core.losses import LossFn
from gradaccord.core.task_gradients import TaskGradients
from gradaccord.probe.eval_mode import evaluating

Statistic: TypeAlias = Callable[[torch.Tensor], torch.Tensor]  # of products, [..., T, T] -> [...]

LEVEL = 0.05  # of false alarms, for all intervals of a kind together
LEAST = 3  # batches of each task: with two, leaving one out leaves no pair


@dataclass(frozen=True)
class Bounds:
    """An estimate and its interval; all NaN where noise leaves nothing to estimate."""

    value: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether there is an estimate."""
        return not math.isnan(self.value)

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


UNKNOWN = Bounds(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class SingleBatches:
    """What a comparison of single batches shows, as in a training step."""

    cosine: float  # on average
    apart: float  # share of the pairs of batches with a negative cosine


@dataclass(frozen=True)
class PairOfTasks:
    """Two tasks: the cosine of their mean gradients, and what single batches of them show."""

    first: str
    second: str
    cosine: Bounds
    batches: SingleBatches


@dataclass(frozen=True)
class OneTask:
    """One task on the shared parameters."""

    name: str
    loss: float
    length: float  # of its mean gradient, without the noise; NaN if it drowns in it
    step: Bounds  # cosine of its gradient with the sum of all: below 0 a plain step raises its loss
    batches: SingleBatches  # two of its own: what noise alone does to a cosine


@dataclass(frozen=True)
class Conflict:
    """What `GradientSample.compare` measured."""

    tasks: tuple[OneTask, ...]
    pairs: tuple[PairOfTasks, ...]
    batches: int  # of each task
    trained: int  # parameters
    shared: int  # of them, those that two tasks reach
    longest: str
    shortest: str
    ratio: Bounds  # of these two tasks' lengths


class GradientSample:
    """Gradients of several batches of each task at one point, in evaluation mode.

        sample = GradientSample(model)
        for batches in islice(loader, 16):
            sample.add({t: partial(loss_fn, model, t, b) for t, b in batches.items()})
        sample.compare().pairs

    With g_tb the gradient of task t on its b-th batch and n batches of each, all independent:

        <s, t> = mean_bc g_sb . g_tc,   |t|^2 = mean_(b != c) g_tb . g_tc,   cos = <s, t> / (|s| |t|)

    No batch is multiplied with itself, so that noise averages out and does not shrink the cosine as it
    does between mean gradients. Intervals are the jackknife's: each batch is left out once. Cost: a
    batch gradient for each batch, all of which are kept in main memory (embeddings by rows touched).
    The model, its `.grad` and the random state are left as they were.
    """

    def __init__(self, model: nn.Module, engine: Any = None) -> None:
        self.model = model
        self.gradients = TaskGradients(model, engine)
        self.bank = Bank()
        self.tasks: tuple[str, ...] = ()
        self.batches = 0  # of each task
        self.megabytes = 0.0

    def add(self, losses: Mapping[str, LossFn | Sequence[LossFn]]) -> None:
        """Add one more batch of every task."""
        if self.batches and set(losses) != set(self.tasks):
            raise ValueError(
                f"`losses` has the tasks {[*losses]} after {[*self.tasks]}: give the same."
            )
        parameters = self.gradients.parameters
        before = take(parameters)
        try:
            with evaluating(self.model):
                bank, order = self.gradients.of(losses)
        finally:
            put(parameters, before)
        self.gradients.checked_losses(bank)
        bank = bank.ordered(order)
        for i, task in enumerate(bank.tasks):
            kept = [None if g is None else _on_cpu(g) for g in bank.gradients[i]]
            self.megabytes += sum(_bytes(g) for g in kept if g is not None) / 2**20
            self.bank.add(task, kept, bank.factors[i], bank.losses[i], bank.items[i])
        self.tasks = tuple(order)
        self.batches += 1

    def compare(self) -> Conflict:
        """Compare the tasks, from the Gram matrix of all batches."""
        if self.batches < LEAST:
            raise ValueError(
                f"There are {self.batches} batches of each task: an interval needs {LEAST}, add more."
            )
        products = self.gradients.dot_products(self.bank)
        rows = {task: [i for i, t in enumerate(self.bank.tasks) if t == task] for task in self.tasks}
        squares = products.diagonal(dim1=1, dim2=2)
        reached = sum((squares[:, own] != 0).any(1).int() for own in rows.values())
        shared = torch.as_tensor(reached) >= min(2, len(rows))
        sizes = [p.numel() for p in self.gradients.parameters.tensors]
        losses = torch.stack([loss.detach().cpu().double() for loss in self.bank.losses])
        return conflict(
            products[shared].sum(0),
            rows,
            {task: float(losses[own].mean()) for task, own in rows.items()},
            trained=sum(sizes),
            shared=sum(size for size, own in zip(sizes, shared.tolist(), strict=True) if own),
        )


def conflict(
    gram: torch.Tensor,
    rows: Mapping[str, Sequence[int]],
    losses: Mapping[str, float],
    *,
    trained: int,
    shared: int,
) -> Conflict:
    """As `compare`, from dot products. gram: [n, n] of all batches; rows: those of each task."""
    names = list(rows)
    groups = [list(own) for own in rows.values()]
    all_of_them = _products(gram, groups)
    without = [torch.stack([_products(gram, groups, b) for b in group]) for group in groups]
    pairs = list(combinations(range(len(names)), 2))
    lengths: list[float] = _lengths(all_of_them).tolist()
    moving = [i for i, length in enumerate(lengths) if length > 0] or [0]
    longest, shortest = max(moving, key=lengths.__getitem__), min(moving, key=lengths.__getitem__)

    def bounds(statistic: Statistic, family: int) -> Bounds:
        return _jackknife(statistic(all_of_them), [statistic(own) for own in without], family)

    def cosine(statistic: Statistic, family: int) -> Bounds:
        found = bounds(statistic, family)
        return Bounds(*(min(max(v, -1.0), 1.0) for v in (found.value, found.low, found.high)))

    ratio = bounds(lambda p: (_lengths(p)[..., longest] / _lengths(p)[..., shortest]).log(), len(pairs))
    return Conflict(
        tasks=tuple(
            OneTask(
                name,
                losses[name],
                lengths[i],
                cosine(partial(_with_sum, task=i), len(names)),
                _single(gram, groups[i], groups[i]),
            )
            for i, name in enumerate(names)
        ),
        pairs=tuple(
            PairOfTasks(
                names[i],
                names[j],
                cosine(partial(_cosine, first=i, second=j), len(pairs)),
                _single(gram, groups[i], groups[j]),
            )
            for i, j in pairs
        ),
        batches=len(groups[0]),
        trained=trained,
        shared=shared,
        longest=names[longest],
        shortest=names[shortest],
        # By logarithms, as the interval of a ratio is wider above than below.
        ratio=Bounds(*(math.exp(v) for v in (ratio.value, ratio.low, ratio.high)))
        if len(moving) > 1
        else UNKNOWN,
    )


def _products(
    gram: torch.Tensor, groups: Sequence[Sequence[int]], without: int | None = None
) -> torch.Tensor:
    """Dot products of the tasks' mean gradients, [T, T]; no batch is multiplied with itself.

    without: a batch that is left out.
    """
    member = torch.zeros(len(groups), len(gram), dtype=torch.float64, device="cpu")
    for i, group in enumerate(groups):
        member[i, [b for b in group if b != without]] = 1
    count = member.sum(1)
    sums = member @ gram @ member.T - torch.diag(member @ gram.diagonal())
    return sums / (torch.outer(count, count) - torch.diag(count))


def _lengths(products: torch.Tensor) -> torch.Tensor:
    """[..., T, T] -> [..., T] the tasks' lengths; NaN where nothing but noise is left."""
    return products.diagonal(dim1=-2, dim2=-1).sqrt()


def _cosine(products: torch.Tensor, first: int, second: int) -> torch.Tensor:
    lengths = _lengths(products)
    return products[..., first, second] / (lengths[..., first] * lengths[..., second])


def _with_sum(products: torch.Tensor, task: int) -> torch.Tensor:
    """The cosine of a task's gradient with the sum of all."""
    whole = products.sum((-2, -1)).sqrt()
    return products[..., task, :].sum(-1) / (_lengths(products)[..., task] * whole)


def _single(gram: torch.Tensor, first: list[int], second: list[int]) -> SingleBatches:
    """What pairs of single batches say, none with itself."""
    norms = gram.diagonal().sqrt()
    cosines = (gram / torch.outer(norms, norms)).fill_diagonal_(math.nan)[first][:, second]
    known = cosines[~cosines.isnan()]
    return SingleBatches(float(known.mean()), float((known < 0).double().mean()))


def _jackknife(value: torch.Tensor, without: Sequence[torch.Tensor], family: int) -> Bounds:
    """The variance from leaving each batch of each task out once (Efron & Stein 1981).

    without: for each task, the statistic without each of its batches. family: how many intervals
    must hold together (Bonferroni).
    """
    from scipy.stats import t

    variance = sum(float((len(own) - 1) * own.var(correction=0)) for own in without)
    if math.isnan(variance):  # without one of the batches nothing but noise is left
        return UNKNOWN
    freedom = min(map(len, without)) - 1
    half = float(t.ppf(1 - LEVEL / 2 / max(family, 1), freedom)) * math.sqrt(variance)
    return Bounds(float(value), float(value) - half, float(value) + half)


def _on_cpu(gradient: Gradient) -> Gradient:
    if isinstance(gradient, Rows):
        return Rows(gradient.index.cpu(), gradient.values.cpu(), gradient.shape, gradient.sparse)
    return gradient.cpu()


def _bytes(gradient: Gradient) -> int:
    values = gradient.values if isinstance(gradient, Rows) else gradient
    return values.numel() * values.element_size()
