"""MetaLearner: what all few-shot methods share, from a batch of tasks to `.grad` and predictions.

What `backward` does: check the tasks; run the learner's rule, `meta_gradient`, on each (or on all where
they depend on each other), which drives one of the two loops of `inner_loops`; sum the outcomes over
tasks and processes; write the mean to `.grad`; keep the state that the rule returned.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch
from torch import nn

from gradaccord.core.checks import one_of, whole_number
from gradaccord.core.engine import Engine
from gradaccord.core.parameters import unwrapped
from gradaccord.meta.episodes.task_batch import Task, TaskBatch, count_of
from gradaccord.meta.learners.checks import check_model, check_task, check_tasks
from gradaccord.meta.learners.inner_loops import last
from gradaccord.meta.learners.outcome import Outcome
from gradaccord.meta.network.functional import NO_BF16, FunctionalModel, Loss
from gradaccord.meta.network.general import Params, batch_statistics, buffers_kept, uncompiled
from gradaccord.meta.reduce import agreed
from gradaccord.meta.report import MetaReport
from gradaccord.models.trunks.conv4 import Conv4

Item = TypeVar("Item")
Result = TypeVar("Result")


class MetaLearner(nn.Module):
    """A model that learns to learn from few examples: `backward` fills `.grad`, as in every method.

        report = learner.backward(tasks)        # a TaskBatch, or a list of Tasks
        optimizer.step(); learner.after_step(); optimizer.zero_grad()

    `learner.parameters()` are the model's weights and what is learned beside them (rates, m, lambda):
    give all of them to the optimiser. Batch norms use the statistics of each batch, in training and
    evaluation; running statistics are neither used nor changed. On several processes wrap the model in
    DistributedDataParallel and give each its part of the tasks: the result equals that of one process.

    model: any module from inputs to outputs.
    inner_steps: K, in training; evaluation may take more or fewer.
    loss: of outputs and labels, a mean over examples. Rates published for a sum must be multiplied
        by the number of examples.
    adapted: which parameters move in the inner loop, by name; all trainable ones by default.
    fast: use the faster network, if the model has one and a check finds it equal.
    precision: "fp32", or "bf16" for the inner steps of Conv-4 in first-order learners: activations and
        the copies of weights that they meet are rounded to bfloat16. Weights, inner moments, statistics
        of the norms, gradients and predictions stay in float32. Faster on processors that have bf16.
    threads: tasks that run at the same time, in training and in evaluation, each on a Python thread.
        Needs the fast network and, in training, tasks that do not depend on each other; else they run
        one by one. In training, a few small tasks of one shape share a pass, and so a thread. The
        results are the same bit for bit. Let torch itself use one thread
        (`torch.set_num_threads(1)`); memory grows with the threads.
    """

    in_parts = True  # whether the tasks of a batch may be given in several calls of `backward`
    separable = True  # whether the tasks of a batch do not depend on each other
    differentiates_twice = False  # whether a gradient is part of a graph, which rules out torch.compile

    def __init__(
        self,
        model: nn.Module,
        *,
        inner_steps: int = 5,
        loss: Loss = nn.functional.cross_entropy,
        adapted: Callable[[str], bool] | None = None,
        fast: bool = True,
        precision: str = "fp32",
        threads: int = 1,
    ) -> None:
        super().__init__()
        check_model(model)
        self.inner_steps = whole_number("inner_steps", inner_steps)
        self.group = Engine(model).group
        self.model: nn.Module = unwrapped(model)
        self.loss = loss
        one_of("precision", precision, ("fp32", "bf16"))
        self.precision = precision
        self.functional = FunctionalModel(self.model, loss, fast, precision == "bf16")
        self._check_precision()
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
        self.threads = whole_number("threads", threads)
        _keep_freed_memory()
        self._parts = 0  # tasks of a batch that comes in parts, so far

    # The rule, which every learner defines.

    def meta_gradient(self, tasks: Sequence[Task], first: int) -> Outcome:
        """The summed meta-gradient of these tasks: a group, or the whole batch if not `separable`.

        A group has one task, or as many alike as are faster in one pass.

        first: the number of the first task in the batch, over all processes. Changes no state: what
        is to be kept is returned in `Outcome.kept`.
        """
        raise NotImplementedError

    def trajectory(self, support: torch.Tensor, labels: torch.Tensor, steps: int) -> Iterator[Params]:
        """All parameters after 0, 1, ... `steps` steps of evaluation; in place, without a graph."""
        raise NotImplementedError

    def keep(self, kept: Mapping[str, list[Any]]) -> None:
        """Keep the state that `meta_gradient` returned (running means); called if all is finite."""

    def measured(self) -> dict[str, Any]:
        """Fields of the report that only this learner has."""
        return {}

    def training_mode(self) -> AbstractContextManager[None]:
        """How the model's modules behave during a meta-iteration."""
        return batch_statistics(self.model)

    def prediction_mode(self, transductive: bool) -> AbstractContextManager[None]:
        """How the modules behave when queries are predicted, beyond what evaluation sets."""
        return nullcontext()

    # What a user calls.

    def backward(self, tasks: TaskBatch | Sequence[Task], of: int | None = None) -> MetaReport:
        """Fill `.grad` with the mean meta-gradient over the tasks, and report what was measured.

        of: the number of tasks in the whole batch, if these are a part of it. After a call for each
        part, `.grad` holds the mean over all of them; a report covers its own part, except `finite`.
        The first part, or a call without `of`, replaces what `.grad` held. After an exception, `.grad`
        and all state are unchanged.
        The trainable parameters must be those that the learner was made with. Activation checkpointing
        is refused.
        """
        start = time.perf_counter()
        trainable = self._trainable()
        checked, first = agreed(lambda: self._checked(tasks, of), self.group)
        first += self._parts if of is not None else 0
        as_written = uncompiled() if self.differentiates_twice else nullcontext()
        with buffers_kept(self.model, if_it_ends=False):
            with self.training_mode(), as_written:
                total, _ = agreed(lambda: Outcome.total(self._outcomes(checked, first)), self.group)
            total.sum_over_processes(self.group)
        self._parts = 0 if of is None else self._parts
        finite = _fill(trainable, total, of, add=self._parts > 0)
        if of is not None:
            self._parts = (self._parts + total.tasks) % of
        if finite:
            self.keep(total.kept)
        return MetaReport(
            query_loss=float(total.loss) / total.tasks,
            query_accuracy=float(total.accuracy) / total.tasks,
            tasks=total.tasks,
            gradients=total.spent,
            seconds=time.perf_counter() - start,
            finite=finite,
            capped=total.capped / total.pairs if total.pairs else float("nan"),
            **self.measured(),
        )

    def after_step(self) -> None:
        """Call this after `optimizer.step()`: it advances the schedules."""
        self.iteration += 1
        self._parts = 0

    def adapt(
        self, support: torch.Tensor, labels: torch.Tensor, steps: int | None = None
    ) -> dict[str, torch.Tensor]:
        """All parameters by name after the inner steps, for `torch.func.functional_call`; no graph."""
        steps = self._steps(steps)
        self.functional.choose(support)
        with batch_statistics(self.model, training=False), buffers_kept(self.model):
            params = last(self.trajectory(support, labels, steps))
        return {name: tensor.detach().clone() for name, tensor in params.items()}

    def logits(self, task: Task, steps: int | None = None, transductive: bool = False) -> torch.Tensor:
        """Outputs [queries, ways] after the last inner step; changes no state.

        Not transductive: the batch statistics for a query come from the support set and that query.
        """
        return self.predictions([task], steps, transductive, by_step=False)[0][0]

    def logits_by_step(
        self, task: Task, steps: int | None = None, transductive: bool = False
    ) -> torch.Tensor:
        """Outputs [steps + 1, queries, ways] after 0, 1, ... inner steps, otherwise as `logits`."""
        return self.predictions([task], steps, transductive)[0]

    def predictions(
        self,
        tasks: Sequence[Task],
        steps: int | None = None,
        transductive: bool = False,
        by_step: bool = True,
    ) -> list[torch.Tensor]:
        """`logits_by_step` of each task, several at a time with `threads`; or the last step alone."""
        steps = self._steps(steps)
        for place, task in enumerate(tasks):
            check_task(task, place)
            self.functional.choose(task.support)
        with batch_statistics(self.model, training=False), buffers_kept(self.model):
            return list(self._each(tasks, lambda t: self._predict(t, steps, transductive, by_step)))

    def network(self, params: Params, inputs: torch.Tensor) -> torch.Tensor:
        """The model as a function of its parameters: the fast one if it was found equal."""
        self.functional.choose(inputs)
        return self.functional.outputs(params, inputs)

    # Inside.

    def _check_precision(self) -> None:
        """Refuse bf16 for second derivatives, and for what cannot be the fast network."""
        if self.precision == "bf16" and self.differentiates_twice:
            raise ValueError(
                f"`precision` is 'bf16', and {type(self).__name__} needs second derivatives, which "
                "would be mostly rounding: leave it out, or take Reptile or FOMAML."
            )
        narrow = self.functional.fast and type(self.model) is Conv4
        floats = all(p.dtype == torch.float32 for p in self.model.parameters())
        if self.precision == "bf16" and not (narrow and floats):
            raise ValueError(NO_BF16)

    def _checked(self, tasks: TaskBatch | Sequence[Task], of: int | None) -> list[Task]:
        listed = check_tasks(tasks)
        if of is not None and not self.in_parts:
            raise ValueError(
                f"`of` is {of}, and gradient sharing, running statistics or averaged moments join all "
                "tasks of a batch: give them in one call."
            )
        if of is not None and self._parts + len(listed) > whole_number("of", of):
            raise ValueError(
                f"`of` is {of}, and the parts given since the last step hold "
                f"{self._parts + len(listed)} tasks: raise it, or call after_step() first."
            )
        changed = set(self.learned) ^ set(self._learned())
        if changed:
            raise ValueError(
                f"Parameter {min(changed)!r} was frozen or made trainable after the learner was made: "
                "undo it, or make a new learner."
            )
        self.functional.choose(listed[0].support)
        return listed

    def _outcomes(self, tasks: list[Task], first: int) -> Iterator[Outcome]:
        """Run the rule on the tasks in order: the graph of a group is gone before the next begins."""
        if not self.separable:
            yield self.meta_gradient(tasks, first)
        else:
            groups = self.functional.groups(tasks)
            yield from self._each(groups, lambda g: self.meta_gradient(tasks[g], first + g.start))

    def _each(self, items: Sequence[Item], run: Callable[[Item], Result]) -> Iterator[Result]:
        """The results in order, one after the other or on threads."""
        if self._on_threads(len(items)):
            with ThreadPoolExecutor(min(self.threads, len(items))) as pool:
                yield from pool.map(run, items)
        else:
            yield from map(run, items)

    def _on_threads(self, tasks: int) -> bool:
        """The general network swaps the module's parameters, and autocast is a thread's own."""
        several = min(self.threads, tasks) > 1
        return several and self.functional.is_fast and not torch.is_autocast_enabled("cpu")

    def _predict(self, task: Task, steps: int, transductive: bool, by_step: bool) -> torch.Tensor:
        found = []
        for step, params in enumerate(self.trajectory(task.support, task.support_labels, steps)):
            if by_step or step == steps:
                with self.prediction_mode(transductive):
                    found.append(
                        self.functional.predict(params, task.support, task.query, transductive)
                    )
        return torch.stack(found)

    def _query_scores(
        self, params: Params, task: Task | TaskBatch
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Loss (with its graph) and accuracy of a task's queries, or sums of several's; NaN without."""
        if task.query_labels.numel() == 0:
            unknown = torch.tensor(torch.nan, dtype=torch.float64, device="cpu")
            return unknown, unknown
        outputs = self.functional.outputs(params, task.query)
        loss = self.functional.loss(outputs, task.query_labels)
        return loss, accuracy(outputs, task.query_labels) * count_of(task)

    def _steps(self, steps: int | None) -> int:
        return self.inner_steps if steps is None else whole_number("steps", steps, least=0)

    def _learned(self) -> tuple[str, ...]:
        """The names of the model's trainable parameters."""
        return tuple(n for n, p in self.model.named_parameters() if p.requires_grad)

    def _trainable(self) -> list[torch.Tensor]:
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def _in_order(self, gradient: Mapping[str, torch.Tensor | None]) -> list[torch.Tensor | None]:
        """A gradient by the model's names, in the order of the learner's trainable parameters."""
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        return [gradient.get(names.get(id(parameter), "")) for parameter in self._trainable()]


def accuracy(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Share of right answers, float64; NaN if the labels are not class numbers."""
    if labels.is_floating_point():
        return torch.tensor(torch.nan, dtype=torch.float64, device="cpu")
    return (outputs.detach().argmax(-1) == labels).double().mean().cpu()


def _keep_freed_memory() -> None:
    """Let glibc keep up to 64 MB of freed memory, which each pass would else fetch from the system.

    Its bounds follow the largest block that was mapped by itself and freed, up to this size.
    """
    torch.empty(2**25 - 2**16, dtype=torch.uint8, device="cpu")


def _fill(trainable: list[torch.Tensor], total: Outcome, of: int | None, add: bool) -> bool:
    """Put the mean into `.grad`, or add it to what is there; whether all of it is finite."""
    filled = [g is not None for g in total.gradients]
    means = [torch.empty_like(p) for p, is_there in zip(trainable, filled, strict=True) if is_there]
    if means:
        torch._foreach_copy_(means, [g for g in total.gradients if g is not None])
        torch._foreach_div_(means, float(of or total.tasks))
    rest = iter(means)
    found = []
    for parameter, is_there in zip(trainable, filled, strict=True):
        gradient = next(rest) if is_there else None
        if add and parameter.grad is not None:
            gradient = parameter.grad if gradient is None else parameter.grad + gradient
        parameter.grad = gradient
        found += [gradient] if gradient is not None and gradient.numel() else []
    return all(map(math.isfinite, torch._foreach_norm(found, math.inf))) if found else True
