"""Any TorchJD weighting of task gradients: CAGrad, MGDA, Nash-MTL, UPGrad and the rest."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from gradaccord.core.parameters import Model
from gradaccord.core.replay import seeded
from gradaccord.methods.combine.combination import Combination, Measured
from gradaccord.methods.combine.torchjd_weightings import constants_of, is_stateful, named, weighting_of


class TorchJD(Combination):
    """Task weights from any `torchjd.aggregation` weighting or aggregator.

        g = sum_t w_t g_t,   w = weighting(Gram matrix)

    `TorchJD(model, "CAGrad", c=0.5)`, `TorchJD(model, UPGradWeighting())`, `TorchJD(model, UPGrad())`.
    A weighting that is defined on the Jacobian but only depends on its Gram matrix (Nash-MTL) is given
    a T x T matrix with the same Gram matrix. One that looks at single coordinates (ExcessMTL, GradDrop,
    TrimmedMean) is not a weighting of task gradients and is refused; so is one that needs two batches
    of every task (MoDo, SDMGrad). Any other module or function from a T x T tensor to T weights works
    too. With several groups of parameters, each has its own copy of the weighting. Random draws come
    from the method's own generator. Cost: T batch gradients, T of memory.

    Rows, constant weights, preferences and PCD's primary task follow the order of `tasks`; without it,
    the order in which the tasks were first seen (with several processes, by the first one). A weighting
    without memory takes the tasks of the step, with their own constants; one with memory needs all
    tasks in every step.

    weighting: a name, with its options as further arguments; or an instance.
    tasks: the tasks in order; others are refused.
    """

    def __init__(
        self, model: Model, weighting: Any, *, tasks: Iterable[str] | None = None, **options: Any
    ) -> None:
        if isinstance(weighting, str):
            general = inspect.signature(Combination).parameters
            own = {k: options.pop(k) for k in list(options) if k not in general}
            weighting = named(weighting, own)
        inner, self.takes_jacobian = weighting_of(weighting)
        super().__init__(model, **options)
        kind = inner if hasattr(inner, "__qualname__") else type(inner)
        self.name = str(kind.__qualname__)
        self.weightings = [copy.deepcopy(inner) for _ in self.partition.groups]
        self.stateful = is_stateful(inner)
        if isinstance(tasks, str):
            raise TypeError(f"`tasks` is {tasks!r}: give a list of names.")
        self.declared = tasks is not None
        self.tasks = list(tasks or ())  # in the order of rows
        self.begun = False  # a weighting with memory has seen its tasks

    def task_order(self, tasks: list[str]) -> list[str]:
        new = [task for task in tasks if task not in self.tasks]
        fixed = self.declared or (self.stateful and self.begun)
        if new and fixed:
            raise ValueError(
                f"Task {new[0]!r} is not one of {', '.join(self.tasks)}, the tasks that the weighting "
                f"{self.name} {'was declared for' if self.declared else 'has seen'}: name all tasks in "
                "order with `tasks`."
            )
        known = self.tasks + new
        absent = [task for task in known if task not in tasks]
        if self.stateful and absent:
            raise ValueError(
                f"Task {absent[0]!r} is absent from this step, and the weighting {self.name} remembers "
                "something of every task: give all tasks in every step, or use a weighting without "
                "memory, e.g. UPGrad."
            )
        self._check_size(known)
        self.tasks, self.begun = known, True
        return [task for task in known if task in tasks]

    def _check_size(self, tasks: list[str]) -> None:
        """Refuse a weighting that was made for another number of tasks."""
        sizes = [len(part.weights) for part in constants_of(self.weightings[0])]
        sizes += [n for n in [getattr(self.weightings[0], "n_tasks", None)] if n is not None]
        for size in sizes:
            if size != len(tasks):
                raise ValueError(
                    f"The weighting {self.name} is made for {size} tasks, and {len(tasks)} are known "
                    f"({', '.join(tasks)}): give it one value for each, and name all tasks in order "
                    "with `tasks` if some come later."
                )

    def weigh(self, measured: Measured) -> torch.Tensor:
        seed = int(torch.randint(2**62, (), generator=self.generator, device="cpu"))
        weights = torch.ones(measured.grams.shape[:2], dtype=torch.float64, device="cpu")
        with seeded(seed), torch.device("cpu"):
            for group in measured.shared.nonzero().flatten().tolist():
                with self._present(group, measured.tasks):
                    weights[group] = self._weights(group, measured)
        return weights

    @contextmanager
    def _present(self, group: int, tasks: tuple[str, ...]) -> Iterator[None]:
        """A weighting with the constants of this step's tasks only."""
        rows = [self.tasks.index(task) for task in tasks]
        constants = constants_of(self.weightings[group])
        whole = [part.weights for part in constants]
        for part in constants:
            part.weights = part.weights[rows]
        try:
            yield
        finally:
            for part, weights in zip(constants, whole, strict=True):
                part.weights = weights

    def _weights(self, group: int, measured: Measured) -> torch.Tensor:
        gram = measured.grams[group]
        stat = _root(gram) if self.takes_jacobian else gram
        weights = self.weightings[group](stat)
        if not isinstance(weights, torch.Tensor) or weights.shape != (len(gram),):
            got = tuple(weights.shape) if isinstance(weights, torch.Tensor) else weights
            raise ValueError(
                f"The weighting {self.name} returned {got} for the tasks "
                f"{', '.join(measured.tasks)}: it must return {len(gram)} weights."
            )
        weights = weights.detach().to("cpu", torch.float64)
        for task, weight in zip(measured.tasks, weights.tolist(), strict=True):
            if not math.isfinite(weight):
                raise ValueError(
                    f"The weighting {self.name} gave task {task!r} the weight {weight}: the step "
                    "was not taken."
                )
        return weights

    def _state(self) -> dict[str, Any]:
        states = [_plain_state(weighting) for weighting in self.weightings]
        return super()._state() | {
            "weighting": self.name,
            "weightings": states,
            "tasks": list(self.tasks),
            "begun": self.begun,
        }

    def _load(self, state: dict[str, Any]) -> None:
        if state.get("weighting", self.name) != self.name:
            raise ValueError(
                f"The state was saved with the weighting {state['weighting']}, and this method has "
                f"{self.name}."
            )
        if self.declared and state["tasks"] != self.tasks:
            raise ValueError(
                f"The state was saved with the tasks {', '.join(state['tasks'])}, and this method has "
                f"{', '.join(self.tasks)}: use the same, in the same order."
            )
        super()._load(state)
        self.tasks, self.begun = list(state["tasks"]), bool(state["begun"])
        for weighting, saved in zip(self.weightings, state["weightings"], strict=True):
            _load_plain_state(weighting, saved)


def _root(gram: torch.Tensor) -> torch.Tensor:
    """A T x T matrix whose Gram matrix is `gram`."""
    values, vectors = torch.linalg.eigh(gram)
    root: torch.Tensor = vectors * values.clamp_min(0).sqrt()
    return root


def _plain_state(weighting: Any) -> list[dict[str, Any]]:
    """The tensors and numbers that each module inside a weighting holds, buffers or not."""
    if not isinstance(weighting, nn.Module):
        return []
    internal = set(vars(nn.Module()))
    states = []
    for module in weighting.modules():
        held = {k: v for k, v in vars(module).items() if k not in internal} | dict(module._buffers)
        states.append({k: _saved(v) for k, v in held.items() if _is_plain(v)})
    return states


def _load_plain_state(weighting: Any, states: list[dict[str, Any]]) -> None:
    if not isinstance(weighting, nn.Module):
        return
    for module, state in zip(weighting.modules(), states, strict=True):
        build = getattr(module, "_init_optim_problem", None)
        if state.get("step") and callable(build):
            build()  # Nash-MTL builds its solver on the first call only
        for name, value in state.items():
            setattr(module, name, _restored(value))


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_plain(item) for item in value)
    plain = (torch.Tensor, int, float, str, torch.dtype, torch.device)
    return value is None or isinstance(value, plain) or _is_array(value)


def _is_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and hasattr(value, "__array__")


def _saved(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    return {"numpy": torch.as_tensor(value).clone()} if _is_array(value) else value


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        return value["numpy"].clone().numpy()
    return value.clone() if isinstance(value, torch.Tensor) else value
