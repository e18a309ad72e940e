"""The method behind a name, a class or a callable, to be built once the Trainer has its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gradaccord.core.did_you_mean import canonical, nearest
from gradaccord.core.method import Method
from gradaccord.data.samplers import SequentialTasks, TaskSampler, sampler_of
from gradaccord.methods.registry import (
    DEFAULT_SAMPLER,
    METHODS,
    Entry,
    Feed,
    entry_of_class,
    takes_optimizer,
)


class MethodFactory:
    """Builds a method once model and optimiser are known.

    method: a name such as "PCGrad", a class, or any callable that takes the model and `engine=`.
    options: its keyword arguments.
    """

    def __init__(
        self, method: str | Callable[..., Method], options: Mapping[str, Any] | None = None
    ) -> None:
        self.entry: Entry | None = _named(method) if isinstance(method, str) else None
        factory = method if self.entry is None else self.entry.load()
        if isinstance(factory, Method):
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
        cls = getattr(factory, "__self__", factory)
        self.takes_optimizer = isinstance(cls, type) and takes_optimizer(cls)
        if self.entry is None and isinstance(cls, type):
            self.entry = entry_of_class(cls)

    @property
    def feed(self) -> Feed:
        """What one step takes; of a callable that is not in the registry, every task."""
        return "all" if self.entry is None else self.entry.feed_with(self.options)

    def build(self, model: Any, optimizer: Any, engine: Any) -> Method:
        """The method on the model as it is called in training."""
        given = {"engine": engine} | self.options
        if self.takes_optimizer:
            given = {"optimizer": optimizer} | given
            if "gradient" in given:  # the engine is that method's
                del given["engine"]
                given["gradient"] = MethodFactory(given["gradient"]).build(model, None, engine)
        return self.factory(model, **given)

    def sampler(
        self, sizes: Mapping[str, int], batches: Mapping[str, int], seed: int = 0
    ) -> TaskSampler:
        """The sampler that suits the method: of examples and of steps that each task has data for."""
        if self.entry is not None and self.feed == "blocks":
            steps = self.entry.block_with(self.options)
            return SequentialTasks(dict.fromkeys(sizes, steps), shuffle=True, seed=seed)
        return sampler_of(DEFAULT_SAMPLER[self.feed], sizes, batches, seed=seed)


def _named(name: str) -> Entry:
    known = canonical(name, METHODS)
    if known not in METHODS:
        raise ValueError(f"`method` is {name!r}: {nearest(name, METHODS)}")
    return METHODS[known]
