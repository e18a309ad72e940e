"""The regulariser of a run (SMART or SWEP), put around every task's loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import nn

from gradaccord.core.options import look_up
from gradaccord.data.encoded import Batch
from gradaccord.methods.registry import REGULARIZERS
from gradaccord.methods.regularize.regularizer import Regularizer
from gradaccord.tasks.task import Task
from gradaccord.train.config import RegularizerConfig


class Regularizers:
    """The regulariser that `regularize` of a configuration names, or none."""

    def __init__(self, model: nn.Module, chosen: Sequence[RegularizerConfig]) -> None:
        if len(chosen) > 1:
            raise ValueError(
                f"`regularize` lists {', '.join(one.name for one in chosen)}: both perturb "
                "the input: choose one."
            )
        self.term: Regularizer | None = None
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
        """The module whose gradients a method fills: the model, or the regulariser that holds it."""
        return self.term if isinstance(self.term, nn.Module) else model

    def loss(
        self, task: Task[Any], name: str, forward: Callable[[], Any], batch: Batch
    ) -> Callable[[], Any]:
        """The loss of a batch as a callable for `backward`."""
        plain = partial(task.loss, batch=batch)
        if self.term is None or task.divergence is None:
            return lambda: plain(forward())
        about: dict[str, Any] = {}
        if self.term.compares_outputs:
            mask = batch.get("attention_mask")
            about = {"kind": task.divergence, "mask": mask, "counted": task.counted(batch)}
        return self.term.loss(forward, plain, task=name, **about)

    def after_step(self) -> None:
        """To be called after every optimiser step."""
        if self.term is not None:
            self.term.after_step()

    def to_floats(self) -> dict[str, float]:
        """What the regulariser measures, for the log."""
        return {} if self.term is None else self.term.to_floats()

    def state_dict(self) -> list[Any]:
        """What is saved beside the model."""
        return [] if self.term is None else [self.term.training_state()]

    def load_state_dict(self, states: Sequence[Any]) -> None:
        """Continue from a saved state."""
        if len(states) != len(self.state_dict()):
            raise ValueError("`regularize` is not that of the saved run: give the same.")
        for state in states:
            assert self.term is not None
            self.term.load_training_state(state)
