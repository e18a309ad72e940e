"""MetaLearner: what all few-shot methods share, from a batch of tasks to `.grad` and predictions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import torch
from torch import nn

from gradaccord.core.checks import whole_number
from gradaccord.core.engine import Engine
from gradaccord.core.parameters import unwrapped
from gradaccord.core.sharding import is_sharded
from gradaccord.meta.episodes.task_batch import Task, TaskBatch
from gradaccord.meta.network.conv4 import FastConv4, laid
from gradaccord.meta.network.general import (
    Network,
    Params,
    batch_statistics,
    buffers_kept,
    chosen_network,
    general_network,
    uncompiled,
)
from gradaccord.meta.predictions import Predictor
from gradaccord.meta.reduce import agree, sum_over_processes
from gradaccord.meta.report import MetaReport

Result = TypeVar("Result")
Loss: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass
class Outcome:
    """What one task, or several that depend on each other, add to a meta-iteration: sums over them."""

    gradients: list[torch.Tensor | None]  # in the order of the learner's trainable parameters
    loss: torch.Tensor  # of the queries, after the last step
    accuracy: torch.Tensor
    tasks: int
    spent: int  # batch gradients
    pairs: int = 0  # of mini-batches whose alignment was raised
    capped: int = 0  # of these, how many terms were shortened

    def add(self, other: Outcome) -> None:
        """Add the other's sums to these."""
        for place, gradient in enumerate(other.gradients):
            own = self.gradients[place]
            if own is None:
                self.gradients[place] = gradient
            elif gradient is not None:
                self.gradients[place] = own + gradient  # autograd's own tensors may share memory
        self.loss = self.loss + other.loss
        self.accuracy = self.accuracy + other.accuracy
        self.tasks += other.tasks
        self.spent += other.spent
        self.pairs += other.pairs
        self.capped += other.capped


class MetaLearner(nn.Module):
    """A model that learns to learn from few examples: `backward` fills `.grad`, as every method's.

        report = learner.backward(tasks)        # a TaskBatch, or a list of Tasks
        optimizer.step(); learner.after_step(); optimizer.zero_grad()

    `learner.parameters()` are the model's weights and what is learned beside them (rates, m, lambda):
    give all of them to the optimiser. Norms use the statistics of each batch, in training and
    evaluation; running ones are neither used nor changed. On several processes wrap the model in
    DistributedDataParallel and give each its part of the tasks: the result equals one process.

    model: any module from inputs to outputs.
    inner_steps: K, in training; evaluation may take more or fewer.
    loss: of outputs and labels, a mean over examples. Rates published for a sum must be multiplied
        by the number of examples.
    adapted: which parameters move in the inner loop, by name; all trainable ones by default.
    fast: use the faster network where the model allows and a check finds it equal.
    threads: tasks that run at the same time, each on a Python thread; needs the fast network and tasks
        that do not depend on each other, else they run one by one. Same bits as one by one. Let torch
        itself use one thread then (`torch.set_num_threads(1)`); memory grows with the threads.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        inner_steps: int = 5,
        loss: Loss = nn.functional.cross_entropy,
        adapted: Callable[[str], bool] | None = None,
        fast: bool = True,
        threads: int = 1,
    ) -> None:
        super().__init__()
        if not isinstance(model, nn.Module):
            raise TypeError(f"`model` must be a torch.nn.Module, got {type(model).__name__}.")
        if any(is_sharded(parameter) for parameter in model.parameters()):
            raise ValueError(
                "`model` is sharded by fully_shard, and the inner loop needs whole weights: use "
                "DistributedDataParallel."
            )
        _check_weights(model)
        self.inner_steps = whole_number("inner_steps", inner_steps)
        self.group = Engine(model).group
        self.model: nn.Module = unwrapped(model)
        self.loss = loss
        self.learned = self._learned()
        self.adapted = tuple(n for n in self.learned if adapted is None or adapted(n))
        if not self.adapted:
            raise ValueError(
                f"None of the model's {len(self.learned)} trainable parameters moves in the inner "
                "loop: set requires_grad=True, or let `adapted` accept one of their names."
            )
        self.iteration: torch.Tensor
        count = torch.zeros((), dtype=torch.int64, device="cpu")
        self.register_buffer("iteration", count)  # meta-updates so far
        self.fast = fast
        self.threads = whole_number("threads", threads)
        self._is_fast = False
        self._network: Network | None = None
        self._predictor: Predictor | None = None

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: the chosen network is a closure over this very model."""
        return {**self.__dict__, "_network": None, "_predictor": None}

    # What a method defines.

    def task_gradient(self, tasks: Sequence[Task], place: int = 0) -> Outcome:
        """The meta-gradient of one task; of all tasks of the batch where they depend on each other.

        `place` is the (first) task's number in the batch, counted over all processes. Touches no state
        but what `_commit` takes over.
        """
        raise NotImplementedError

    def _trajectory(self, support: torch.Tensor, labels: torch.Tensor, steps: int) -> Iterator[Params]:
        """All parameters after 0, 1, ... `steps` inner steps, without a graph; changed in place."""
        raise NotImplementedError

    def _outcomes(self, tasks: list[Task], place: int) -> Iterator[Outcome]:
        """Run the tasks in order: the graph of one is gone before the next begins."""
        if self._on_threads(len(tasks)):
            with ThreadPoolExecutor(min(self.threads, len(tasks))) as pool:
                places = range(place, place + len(tasks))
                yield from pool.map(lambda task, at: self.task_gradient([task], at), tasks, places)
        else:
            yield from (self.task_gradient([task], place + i) for i, task in enumerate(tasks))

    def _on_threads(self, tasks: int) -> bool:
        """The general network swaps the module's parameters, and autocast is a thread's own."""
        several = min(self.threads, tasks) > 1
        return several and self._is_fast and self._separable() and not torch.is_autocast_enabled("cpu")

    def _separable(self) -> bool:
        """Whether no task depends on what another one left behind."""
        return True

    def _twice(self) -> bool:
        """Whether a gradient becomes part of a graph, which what torch.compile makes does not allow."""
        raise NotImplementedError

    def _begin(self) -> None:
        """Forget what an interrupted meta-iteration prepared."""

    def _commit(self, finite: bool) -> None:
        """Take over what `task_gradient` prepared (running means); nothing of it if not finite."""

    def _measured(self) -> dict[str, Any]:
        """Fields of the report that only this method has."""
        return {}

    # What a user calls.

    def backward(self, tasks: TaskBatch | Sequence[Task]) -> MetaReport:
        """Fill `.grad` with the mean meta-gradient over the tasks, and say what was seen.

        What stood in `.grad` before is replaced. On an exception `.grad` and all state are as before.
        The trainable parameters must be those that the learner was made with. Activation checkpointing
        is refused.
        """
        start = time.perf_counter()
        trainable = self._trainable()
        listed, place = self._agreed(lambda: self._listed(tasks))
        self._begin()
        with buffers_kept(self.model, if_it_ends=False):
            total, _ = self._agreed(lambda: self._total(listed, place))
            self._sum_over_processes(total)
        finite = self._fill(trainable, total)
        self._commit(finite)
        return MetaReport(
            query_loss=float(total.loss) / total.tasks,
            query_accuracy=float(total.accuracy) / total.tasks,
            tasks=total.tasks,
            gradients=total.spent,
            seconds=time.perf_counter() - start,
            finite=finite,
            capped=total.capped / total.pairs if total.pairs else float("nan"),
            **self._measured(),
        )

    def after_step(self) -> None:
        """To be called after `optimizer.step()`; advances the schedules."""
        self.iteration += 1

    def adapt(
        self, support: torch.Tensor, labels: torch.Tensor, steps: int | None = None
    ) -> dict[str, torch.Tensor]:
        """All parameters by name after the inner steps, for `torch.func.functional_call`; no graph."""
        steps = self._steps(steps)
        self._ready(support)
        with batch_statistics(self.model, training=False), buffers_kept(self.model):
            params = last(self._trajectory(support, labels, steps))
        return {name: tensor.detach().clone() for name, tensor in params.items()}

    def logits(self, task: Task, steps: int | None = None, transductive: bool = False) -> torch.Tensor:
        """Outputs [queries, ways] after the last inner step; changes no state.

        Not transductive: the batch statistics for a query come from the support set and that query.
        """
        return self._predict(task, self._steps(steps), transductive, every=False)[0]

    def logits_by_step(
        self, task: Task, steps: int | None = None, transductive: bool = False
    ) -> torch.Tensor:
        """Outputs [steps + 1, queries, ways] after 0, 1, ... inner steps, otherwise as `logits`."""
        return torch.stack(self._predict(task, self._steps(steps), transductive, every=True))

    def network(self, params: Params, inputs: torch.Tensor, step: int = 0) -> torch.Tensor:
        """The model as a function of its parameters: the fast one if it was found equal."""
        self._ready(inputs)
        return self._present()(params, inputs, step)

    # What methods use.

    @property
    def _places(self) -> dict[str, int]:
        """Where the model's trainable parameters stand in `_trainable()`, by name."""
        places = {id(parameter): place for place, parameter in enumerate(self._trainable())}
        named = self.model.named_parameters()
        return {name: places[id(p)] for name, p in named if id(p) in places}

    def _copies(self) -> list[torch.Tensor]:
        """Adapted weights to be moved in place."""
        return [weight.detach().clone().requires_grad_() for weight in self._start()]

    def _start(self) -> list[torch.Tensor]:
        """Adapted weights to start from, laid out in memory as the network's gradients are."""
        params = self._params()
        weights = [params[name] for name in self.adapted]
        return [laid(w) for w in weights] if isinstance(self._network, FastConv4) else weights

    def _with(self, fast: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        """All parameters, with these in the place of the adapted ones."""
        return self._params() | dict(zip(self.adapted, fast, strict=True))

    def _outputs(self, params: Params, inputs: torch.Tensor) -> torch.Tensor:
        return self._present()(params, inputs)

    def _present(self) -> Network:
        """The chosen network; under autocast the general one, as the fast one knows no casts."""
        assert self._network is not None
        if isinstance(self._network, FastConv4):
            device = next(self.model.parameters()).device.type
            if torch.is_autocast_enabled(device):
                return general_network(self.model)
        return self._network

    def _params(self) -> dict[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def _loss(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        try:
            loss = self.loss(outputs, labels)
        except IndexError as error:
            raise ValueError(
                f"Labels run to {int(labels.max())} and the model has {outputs.shape[-1]} outputs: "
                "give labels 0 to ways - 1, or a model with as many outputs as ways."
            ) from error
        if loss.ndim:
            raise ValueError(
                f"`loss` returned a tensor of shape {list(loss.shape)}: it must return a scalar."
            )
        return loss

    def _gradient(
        self,
        params: Params,
        weights: Sequence[torch.Tensor],
        inputs: torch.Tensor,
        labels: torch.Tensor,
        create_graph: bool = False,
    ) -> list[torch.Tensor]:
        """Of the loss, by the given weights, which are among the parameters."""
        network = self._present()
        if isinstance(network, FastConv4):
            names = {id(tensor): name for name, tensor in params.items()}
            of = [names[id(weight)] for weight in weights]
            return network.gradient(params, of, inputs, labels, self._loss, create_graph)
        with torch.enable_grad():
            loss = self._loss(self._outputs(params, inputs), labels)
            gradient = torch.autograd.grad(
                loss, weights, create_graph=create_graph, allow_unused=True, materialize_grads=True
            )
        return dense(gradient)

    def _learned(self) -> tuple[str, ...]:
        """The names of the model's trainable parameters."""
        return tuple(n for n, p in self.model.named_parameters() if p.requires_grad)

    def _trainable(self) -> list[torch.Tensor]:
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def _training(self) -> AbstractContextManager[None]:
        """The context of a meta-iteration."""
        return batch_statistics(self.model)

    def _predicting(self, transductive: bool) -> AbstractContextManager[None]:
        """The context of predictions, inside that of evaluation."""
        return nullcontext()

    def _ready(self, inputs: torch.Tensor) -> None:
        """Choose the network when the first inputs are seen."""
        if self._network is None:
            if self.fast:
                with batch_statistics(self.model, training=False):
                    self._network, self._is_fast = chosen_network(self.model, inputs)
            else:
                self._network = general_network(self.model)

    # Inside.

    def _predict(self, task: Task, steps: int, transductive: bool, every: bool) -> list[torch.Tensor]:
        _check_task(task, 0)
        self._ready(task.support)
        if self._predictor is None:
            self._predictor = self._new_predictor()
        found = []
        with batch_statistics(self.model, training=False), buffers_kept(self.model):
            trajectory = self._trajectory(task.support, task.support_labels, steps)
            for step, params in enumerate(trajectory):
                if every or step == steps:
                    with self._predicting(transductive):
                        outputs = self._predictor(params, task.support, task.query, transductive)
                    found.append(outputs)
        return found

    def _new_predictor(self) -> Predictor:
        return Predictor(self.network)

    def _steps(self, steps: int | None) -> int:
        return self.inner_steps if steps is None else whole_number("steps", steps, least=0)

    def _listed(self, tasks: TaskBatch | Sequence[Task]) -> list[Task]:
        if not isinstance(tasks, TaskBatch | list | tuple):
            raise TypeError(
                f"`tasks` must be a TaskBatch or a list of Tasks, got {type(tasks).__name__}."
            )
        listed = list(tasks)
        if not listed:
            raise ValueError("`tasks` holds no task: give at least one.")
        for place, task in enumerate(listed):
            _check_task(task, place)
        changed = set(self.learned) ^ set(self._learned())
        if changed:
            raise ValueError(
                f"Parameter {min(changed)!r} was frozen or made trainable after the learner was made: "
                "undo it, or make a new learner."
            )
        self._ready(listed[0].support)
        return listed

    def _total(self, tasks: list[Task], place: int) -> Outcome:
        with self._training(), uncompiled() if self._twice() else nullcontext():
            outcomes = self._outcomes(tasks, place)
            total = next(outcomes)
            for outcome in outcomes:
                total.add(outcome)
        return total

    def _agreed(self, run: Callable[[], Result]) -> tuple[Result, int]:
        """What `run` returns, and how many tasks other processes place before this one's.

        If it fails on one process it raises on all.
        """
        if self.group is None:
            return run(), 0
        result, error = None, None
        try:
            result = run()
        except Exception as problem:
            error = problem
        counts = agree(error, len(result) if isinstance(result, list) else 0, self.group)
        assert result is not None
        return result, sum(counts[: self.group.rank()])

    def _sum_over_processes(self, total: Outcome) -> None:
        if self.group is None:
            return
        counts = total.tasks, total.spent, total.pairs, total.capped
        sums = [float(total.loss), float(total.accuracy), *counts]
        numbers = torch.tensor(sums, dtype=torch.float64, device="cpu")
        total.gradients = [None if g is None else g.clone() for g in total.gradients]
        present = [gradient for gradient in total.gradients if gradient is not None]
        sum_over_processes([numbers, *present], self.group)
        total.loss, total.accuracy = numbers[0], numbers[1]
        total.tasks, total.spent, total.pairs, total.capped = map(int, numbers[2:].tolist())

    def _fill(self, trainable: list[torch.Tensor], total: Outcome) -> bool:
        """Put the mean into `.grad`; whether all of it is finite."""
        finite = True
        for parameter, gradient in zip(trainable, total.gradients, strict=True):
            if gradient is not None:
                gradient = torch.div(gradient, total.tasks, out=torch.empty_like(parameter))
                finite = finite and bool(gradient.isfinite().all())
            parameter.grad = gradient
        return finite


def last(trajectory: Iterator[Params]) -> Params:
    """The parameters at the end of a trajectory."""
    params: Params = {}
    for params in trajectory:  # noqa: B007
        pass
    return params


def accuracy_of(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Share of right answers, float64; NaN if the labels are no class numbers."""
    if labels.is_floating_point():
        return unknown()
    return (outputs.detach().argmax(-1) == labels).double().mean().cpu()


def unknown() -> torch.Tensor:
    """NaN, for what was not measured."""
    return torch.tensor(float("nan"), dtype=torch.float64, device="cpu")


def dense(gradients: Sequence[torch.Tensor | None]) -> list[Any]:
    """The gradients, if none of them is sparse."""
    if any(gradient is not None and gradient.is_sparse for gradient in gradients):
        raise RuntimeError(
            "A gradient in the inner loop is sparse: call torch.nn.functional.embedding with "
            "sparse=False, or use torch.nn.Embedding."
        )
    return list(gradients)


def rate_of(field: str, value: object) -> float:
    """The value, if it is a positive finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise ValueError(f"`{field}` is {value!r}: use a positive number such as 0.1.")
    return float(value)


def one_of(field: str, value: object, allowed: Sequence[object]) -> None:
    """Raise unless the value is among those allowed."""
    if value not in allowed:
        raise ValueError(f"`{field}` is {value!r}: use {' or '.join(map(repr, allowed))}.")


def _check_weights(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.is_complex() and parameter.requires_grad:
            raise ValueError(
                f"`model` has a complex weight, {name!r}, and inner loops know real ones alone: hold "
                "its real and imaginary parts as two weights."
            )
        if parameter.is_meta:
            raise ValueError(
                f"The weight {name!r} of `model` is on the meta device and has no values: load or "
                "initialise the model first."
            )


def _check_task(task: object, place: int) -> None:
    if not isinstance(task, Task):
        raise TypeError(f"Task {place} is a {type(task).__name__}: give a gradaccord.meta.Task.")
    sets: Mapping[str, tuple[torch.Tensor, torch.Tensor]] = {
        "support": (task.support, task.support_labels),
        "query": (task.query, task.query_labels),
    }
    for name, (inputs, labels) in sets.items():
        if len(inputs) != len(labels):
            raise ValueError(
                f"Task {place} has {len(inputs)} {name} inputs and {len(labels)} labels: give as many."
            )
        if inputs.dtype == torch.uint8:
            raise ValueError(
                f"The {name} inputs of task {place} are bytes: make them floats, such as "
                "images.float() / 255."
            )
    if len(task.support) == 0:
        raise ValueError(f"Task {place} has no support examples: give at least one shot.")
