"""How good a meta-learner is: accuracy over tasks with its interval, by inner step, as an ensemble.

    result = evaluate(learner, FixedTasks(omniglot.test, ways=5, shots=1))
    print(result)  # 95.31 % ± 0.42 (95 % interval over 600 tasks, non-transductive, 5 inner steps)

The interval is over tasks, not over single predictions (those of one task are not independent):
1.96 standard deviations of the tasks' accuracies / sqrt(tasks).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from gradaccord.meta.episodes.task_batch import Task, TaskBatch

if TYPE_CHECKING:
    from gradaccord.meta.learners.learner import MetaLearner

NORMAL_95 = 1.96  # standard deviations, as in the papers


@dataclass(frozen=True)
class Evaluation:
    """Accuracy (or loss) over tasks.

    value: mean over tasks after the last inner step, in percent for accuracy.
    interval: half of its 95 % confidence interval.
    by_step, interval_by_step: the same after 0, 1, ... inner steps (or once).
    transductive: whether the queries of a task were predicted together, from joint batch statistics.
    models: 1, or the number in the ensemble.
    unit: "accuracy" or "loss".
    """

    value: float
    interval: float
    by_step: tuple[float, ...]
    interval_by_step: tuple[float, ...]
    tasks: int
    steps: int
    transductive: bool
    models: int = 1
    unit: str = "accuracy"

    def __post_init__(self) -> None:
        if not self.by_step or len(self.by_step) != len(self.interval_by_step):
            raise ValueError("`by_step` and `interval_by_step` differ in length")

    def __str__(self) -> str:
        mode = "transductive" if self.transductive else "non-transductive"
        number = f"{self.value:.2f} %" if self.unit == "accuracy" else f"{self.unit} {self.value:.4g}"
        digits = f"{self.interval:.2f}" if self.unit == "accuracy" else f"{self.interval:.2g}"
        text = (
            f"{number} ± {digits} (95 % interval over {self.tasks} tasks, {mode}, "
            f"{self.steps} inner step{'' if self.steps == 1 else 's'}"
        )
        return f"{text}, ensemble of {self.models})" if self.models > 1 else f"{text})"


Measure = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def evaluate(
    learner: MetaLearner,
    tasks: Iterable[TaskBatch],
    *,
    steps: int | None = None,
    transductive: bool = False,
    loss: Measure | None = None,
    by_step: bool = True,
    progress: Callable[[int], None] = lambda tasks: None,
) -> Evaluation:
    """Adapt to each task and predict its queries; the learner is not changed.

    tasks: `FixedTasks`, or any batches of tasks.
    steps: inner steps; by default as many as in training, and more are allowed.
    transductive: predict all queries of a task together, so that batch statistics come from them too.
        Off by default: it makes tasks easier, and cannot be compared with results without it.
    loss: measure this (e.g. mse_loss for regression) instead of the accuracy.
    by_step: predict after every inner step, for the adaptation curve; False predicts once, after the
        last.
    progress: called with the number of tasks done so far.
    """
    rows = []
    for batch in tasks:
        for task, outputs in _predicted(learner, batch, steps, transductive, by_step):
            rows.append(_measured(outputs, task.query_labels, loss))
            progress(len(rows))
    taken = learner.inner_steps if steps is None else steps
    return _summary(rows, tasks, taken, transductive, 1, loss)


def evaluate_ensemble(
    learner: MetaLearner,
    checkpoints: Sequence[Mapping[str, Any]],
    tasks: Iterable[TaskBatch],
    *,
    steps: int | None = None,
    transductive: bool = False,
    progress: Callable[[int], None] = lambda tasks: None,
) -> Evaluation:
    """Mean of the softmax outputs of several checkpoints of one learner, each adapted separately.

    The learner is left as it was. An ensemble is not a single model, and costs several times as much at
    test: report it separately.

    checkpoints: `state_dict`s of the learner, usually the five best by validation accuracy.
    progress: called with the number of tasks done so far, over checkpoints.
    """
    if not checkpoints:
        raise ValueError("`checkpoints` is empty: an ensemble needs at least one.")
    before = {key: value.clone() for key, value in learner.state_dict().items()}
    total: list[torch.Tensor] = []
    labels: list[torch.Tensor] = []
    try:
        for number, checkpoint in enumerate(checkpoints):
            learner.load_state_dict(checkpoint)
            every = (
                pair
                for batch in tasks
                for pair in _predicted(learner, batch, steps, transductive, by_step=False)
            )
            for place, (task, outputs) in enumerate(every):
                shares = outputs.softmax(-1)
                if number == 0:
                    total.append(shares)
                    labels.append(task.query_labels)
                else:
                    total[place] = total[place] + shares
                progress(number * len(total) + place + 1 if number else place + 1)
    finally:
        learner.load_state_dict(before)
    rows = [_measured(shares, truth, None) for shares, truth in zip(total, labels, strict=True)]
    taken = learner.inner_steps if steps is None else steps
    return _summary(rows, tasks, taken, transductive, len(checkpoints), None)


def mean_and_interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half of its 95 % interval; the interval of a single value is not a number."""
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return mean, math.nan
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return mean, NORMAL_95 * math.sqrt(variance / count)


def _predicted(
    learner: MetaLearner, batch: TaskBatch, steps: int | None, transductive: bool, by_step: bool
) -> list[tuple[Task, torch.Tensor]]:
    """The tasks of a batch, each with its outputs [inner steps, queries, ...]."""
    listed = list(batch)
    return list(zip(listed, learner.predictions(listed, steps, transductive, by_step), strict=True))


def _measured(logits: torch.Tensor, labels: torch.Tensor, loss: Measure | None) -> torch.Tensor:
    """One number for each inner step, of one task."""
    if loss is None:
        return (logits.argmax(-1) == labels).double().mean(1).cpu() * 100
    return torch.stack([loss(one, labels) for one in logits]).detach().double().cpu()


def _summary(
    rows: list[torch.Tensor],
    tasks: Iterable[TaskBatch],
    steps: int,
    transductive: bool,
    models: int,
    loss: Measure | None,
) -> Evaluation:
    values = [row.tolist() for row in rows]
    if getattr(tasks, "world_size", 1) > 1:
        values = _from_all_processes(values)
    if not values:
        raise ValueError("`tasks` is empty: there is nothing to evaluate on.")
    by_step = [mean_and_interval(column) for column in zip(*values, strict=True)]
    return Evaluation(
        *by_step[-1],
        tuple(mean for mean, _ in by_step),
        tuple(interval for _, interval in by_step),
        len(values),
        steps,
        transductive,
        models,
        "accuracy" if loss is None else "loss",
    )


def _from_all_processes(values: list[list[float]]) -> list[list[float]]:
    from torch import distributed

    gathered: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(gathered, values)
    return [row for part in gathered for row in part]
