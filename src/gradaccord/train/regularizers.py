"""The regulariser of a run (SMART or SWEP), put around every task's loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import nn

from gradaccord.core.options import look_up
from gradaccord.data.encoded import Batch
from gradaccord.methods.registry import REGULARIZERS
from gradaccord.tasks.task import Task
from gradaccord.train.config import RegularizerConfig


class Regularizers:
    """None or one, as `regularize` of a configuration lists them."""

    def __init__(self, model: nn.Module, chosen: Sequence[RegularizerConfig]) -> None:
        if len(chosen) > 1:
            raise ValueError(
                f"`regularize` lists {', '.join(one.name for one in chosen)}: their noises would fall "
                "on one another; choose one."
            )
        self.term: Any = None
        self.cost = 1.0  # by how much a batch gradient costs more
        for one in chosen:
            entry = look_up("The regulariser", one.name, REGULARIZERS)
            given = entry.check(one.options)
            trunk: Any = getattr(model, "trunk", None)
            inner: Any = getattr(trunk, "model", None)
            if "module" not in given and hasattr(inner, "get_input_embeddings"):
                found = {
                    "module": inner.get_input_embeddings(),
                    "encoder": inner,
                    "hidden_size": trunk.hidden,
                }
                given = {k: v for k, v in found.items() if k in entry.options()} | given
            self.term = entry.load()(model, **given)
            self.cost = entry.cost_with(one.options)

    def whole(self, model: nn.Module) -> nn.Module:
        """The module whose parameters a method is to fill: the model, or the one that holds it."""
        return self.term if isinstance(self.term, nn.Module) else model

    def loss(
        self, task: Task[Any], name: str, forward: Callable[[], Any], batch: Batch
    ) -> Callable[[], Any]:
        """The callable that `backward` is given."""
        plain = partial(task.loss, batch=batch)
        if self.term is None or task.divergence is None:
            return lambda: plain(forward())
        about: dict[str, Any] = {}
        if self.term.compares_outputs:
            tags = batch.get("tags")
            about = {
                "kind": task.divergence,
                "mask": batch.get("attention_mask"),
                "counted": None if tags is None else tags >= 0,
            }
        regularised: Callable[[], Any] = self.term.loss(forward, plain, task=name, **about)
        return regularised

    def after_step(self) -> None:
        """After every optimiser step."""
        if self.term is not None:
            self.term.after_step()

    def to_floats(self) -> dict[str, float]:
        """For the log."""
        return {} if self.term is None else self.term.to_floats()

    def state_dict(self) -> list[Any]:
        """What is saved beside the model."""
        return [] if self.term is None else [self.term.training_state()]

    def load_state_dict(self, states: Sequence[Any]) -> None:
        """Continue from a saved state."""
        if len(states) != len(self.state_dict()):
            raise ValueError("`regularize` is not that of the saved run: give the same.")
        for state in states:
            self.term.load_training_state(state)
