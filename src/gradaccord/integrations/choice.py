"""What the user asked for: the method behind a name or a factory, and the sampler that suits it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gradaccord
from gradaccord.align.paired import PairedSum
from gradaccord.align.sam import SAM
from gradaccord.core.method import Method
from gradaccord.data.samplers import ProportionalTasks, RoundRobinTasks, SequentialTasks, TaskSampler
from gradaccord.trajectory.reptile import MultiTaskReptile
from gradaccord.trajectory.trajectory import Trajectory

METHODS = (
    *("Sum", "Mean", "PCGrad", "GradVac", "GradNorm", "TorchJD", "DotProd", "PairedSum", "SAM"),
    *("Reptile", "SequentialReptile", "MultiTaskReptile", "FOMAML"),
)


class Choice:
    """A method that is still to be built, once model and optimiser are known.

    method: a public name such as "PCGrad", a class, or any callable that takes the model and
        `engine=`. options: its keyword arguments.
    """

    def __init__(
        self, method: str | Callable[..., Method], options: Mapping[str, Any] | None = None
    ) -> None:
        factory = _named(method) if isinstance(method, str) else method
        if _is_built(factory):
            raise TypeError(
                f"`method` is a {type(factory).__name__} that is already built: give the class or a "
                "partial, e.g. method=gradaccord.PCGrad; the trainer builds it on the model it wraps."
            )
        if not callable(factory):
            raise TypeError(
                f"`method` is {method!r}: give a name such as 'PCGrad', a class, or a callable that "
                "takes the model."
            )
        self.options: dict[str, Any] = {}
        while isinstance(factory, partial):
            self.options = factory.keywords | self.options
            if factory.args:
                raise TypeError(
                    "`method` is a partial with positional arguments: the model is given by the "
                    "trainer, name the others."
                )
            factory = factory.func
        self.factory: Callable[..., Method] = factory
        self.options |= options or {}
        # A classmethod such as DotProd.paper makes what its class makes.
        owner = getattr(factory, "__self__", factory)
        self.kind = owner if isinstance(owner, type) else None

    def is_a(self, kind: type) -> bool:
        """Whether the method is of a class; False of what an unknown callable makes."""
        return self.kind is not None and issubclass(self.kind, kind)

    @property
    def paired(self) -> bool:
        """Whether a step takes two batches at the same weights."""
        if self.is_a(SAM):
            return bool(self.options.get("batches", 1) == 2)
        return self.is_a(PairedSum)

    def build(self, model: Any, optimizer: Any, engine: Any) -> Method:
        """The method on the model as it is called in training."""
        given = {"engine": engine} | self.options
        if "gradient" in given and self.is_a(Trajectory):
            del given["engine"]
            given["gradient"] = Choice(given["gradient"]).build(model, None, engine)
        if self.is_a(Trajectory):
            given = {"optimizer": optimizer} | given
        return self.factory(model, **given)

    def sampler(
        self, sizes: Mapping[str, int], batches: Mapping[str, int], seed: int = 0
    ) -> TaskSampler:
        """The sampler that suits the method: of examples and of steps that each task has data for."""
        if self.is_a(MultiTaskReptile):  # one task for a whole trajectory
            steps = self.options.get("inner_steps") or _default(self.kind, "inner_steps")
            return SequentialTasks(dict.fromkeys(sizes, steps), shuffle=True, seed=seed)
        if self.is_a(Trajectory) or self.is_a(PairedSum):
            return ProportionalTasks(sizes, seed=seed)
        return RoundRobinTasks(batches)


def _is_built(value: Any) -> bool:
    return isinstance(value, Method) and not isinstance(value, type)


def _named(name: str) -> Callable[..., Method]:
    for known in METHODS:
        if known.lower() == name.lower().replace("_", "").replace("-", ""):
            found: Callable[..., Method] = getattr(gradaccord, known)
            return found
    raise ValueError(f"`method` is {name!r}: use one of {', '.join(METHODS)}.")


def _default(kind: Any, option: str) -> Any:
    return inspect.signature(kind).parameters[option].default
