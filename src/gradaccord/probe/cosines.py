"""Cosines between the tasks' gradients over many batches, measured apart from training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gradaccord.core.bank import put
from gradaccord.core.checks import whole_number
from gradaccord.core.losses import LossFn
from gradaccord.core.parameters import Parameters
from gradaccord.methods.combine.plain import Sum
from gradaccord.probe.eval_mode import evaluating
from gradaccord.probe.figure import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class TaskCosines:
    """Cosines between the tasks' mean gradients."""

    tasks: tuple[str, ...]
    matrix: torch.Tensor  # [T, T], float64; NaN where a task has no gradient
    mean: float  # over pairs of tasks
    losses: dict[str, float]  # mean loss of each task over the same batches
    batches: dict[str, int]  # how many each task gave

    def figure(self) -> Figure:
        """A heat map of the matrix."""
        n = len(self.tasks)
        size = 2.5 + 0.55 * n
        figure = new_figure(size + 1, size)
        axes = figure.add_subplot()
        image = axes.imshow(self.matrix.numpy(), cmap="PuOr", vmin=-1, vmax=1)
        axes.set_xticks(range(n), self.tasks, rotation=45, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(n), self.tasks)
        for i, row in enumerate(self.matrix.tolist()):
            for j, value in enumerate(row):
                colour = "white" if abs(value) > 0.6 else "black"
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=8, color=colour)
        figure.colorbar(image, ax=axes, label="cosine", shrink=0.8)
        axes.set_title(f"Cosine of task gradients, mean {self.mean:.3f}", fontsize=10)
        return figure

    def draw(self, path: str | Path) -> Path:
        """Write the heat map; the suffix says in which format (png, svg, pdf)."""
        path = Path(path)
        figure = self.figure()
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
        return path

    def to_floats(self) -> dict[str, float]:
        """A flat dictionary for any logger."""
        floats = {"task_cosine": self.mean}
        for i, first in enumerate(self.tasks):
            for j, second in enumerate(self.tasks[:i]):
                floats[f"task_cosine/{second}~{first}"] = float(self.matrix[i, j])
        return floats


def task_cosines(
    model: nn.Module,
    losses: Iterable[Mapping[str, LossFn | Sequence[LossFn]]],
    *,
    batches: int | None = 32,
    shared: Iterable[str] | None = None,
    engine: Any = None,
) -> TaskCosines:
    """Cosines between the gradients of the tasks' mean losses over many batches, in evaluation mode.

        losses = ({t: partial(loss_fn, model, t, b) for t, b in step.items()} for step in loader)
        task_cosines(model, losses).mean

    The gradients of `batches` batches are averaged before they are compared: cosines between single
    batches are mostly noise (on a small sentence encoder about half of them were negative, whatever the
    tasks). Only shared parameters count, as in training. Training is not affected: dropout is off, and
    every module's mode, buffers, `.grad` and the random state are put back. Cost: one batch gradient
    per task and batch, T gradients of memory.

    losses: an iterable of what `backward` is given in a step: callables by task, each returning the
        loss or (mean loss, number of items). All are kept until the end.
    batches: how many steps to take from it, at most; None for all.
    shared, engine: as in the methods.
    """
    if batches is not None:
        whole_number("batches", batches, hint=", or None for all")
    if isinstance(losses, Mapping):
        raise TypeError("`losses` is one mapping: give an iterable of them, one for each step.")
    calls: dict[str, list[LossFn]] = {}
    for step in islice(losses, batches):
        for task, given in step.items():
            calls.setdefault(task, []).extend([given] if callable(given) else given)
    if len(calls) < 2:
        raise ValueError(f"`losses` has {len(calls)} tasks: a cosine needs two.")
    parameters = Parameters.of(model)
    before = [parameter.grad for parameter in parameters.tensors]
    try:
        with evaluating(model):
            report = Sum(model, shared=shared, engine=engine).backward(calls)
    finally:
        put(parameters, before)
    return TaskCosines(
        tasks=report.tasks,
        matrix=report.cosines,
        mean=report.mean_cosine,
        losses=dict(zip(report.tasks, report.losses.tolist(), strict=True)),
        batches={task: len(calls[task]) for task in report.tasks},
    )
