"""Regularisers of the losses by name (SMART, SWEP), put around every task's loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import nn

from gradaccord.core.did_you_mean import nearest
from gradaccord.data.encoded import Batch
from gradaccord.methods.regularize.smart import SMART
from gradaccord.methods.regularize.swep import SWEP
from gradaccord.tasks.task import Task

# name -> class, and by how much a batch gradient costs more with it
REGULARIZERS: dict[str, tuple[type, float]] = {"smart": (SMART, 2.7), "swep": (SWEP, 2.1)}


class Regularizers:
    """None, one or several; the loss of a batch is wrapped by the first, its result by the next."""

    def __init__(self, model: nn.Module, chosen: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        self.names = [name for name, _ in chosen]
        self.terms = [_made(name, model, options) for name, options in chosen]
        if len(self.terms) > 1:
            raise ValueError(
                f"`regularize` lists {', '.join(self.names)}: their noises would fall on one another; "
                "choose one."
            )

    @property
    def cost(self) -> float:
        """By how much a batch gradient costs more."""
        return REGULARIZERS[self.names[0]][1] if self.names else 1.0

    def parameters(self) -> list[nn.Parameter]:
        """What the regularisers learn themselves."""
        found: list[nn.Parameter] = []
        for term in self.terms:
            found += getattr(getattr(term, "network", None), "parameters", list)()
        return found

    def whole(self, model: nn.Module) -> nn.Module:
        """The module whose parameters a method is to fill: the model, or the one that holds it."""
        held = [term for term in self.terms if isinstance(term, nn.Module)]
        return held[0] if held else model

    def loss(
        self, task: Task[Any], name: str, forward: Callable[[], Any], batch: Batch
    ) -> Callable[[], Any]:
        """The callable that `backward` is given."""
        plain = partial(task.loss, batch=batch)
        if not self.terms or task.divergence is None:
            return partial(_plain, forward, plain)
        (term,) = self.terms
        if self.names[0] == "swep":
            regularised: Callable[[], Any] = term.loss(forward, plain, task=name)
            return regularised
        counted = batch.get("tags")
        regularised = term.loss(
            forward,
            plain,
            kind=task.divergence,
            task=name,
            mask=batch.get("attention_mask"),
            counted=None if counted is None else counted >= 0,
        )
        return regularised

    def after_step(self) -> None:
        """After every optimiser step."""
        for term in self.terms:
            term.after_step()

    def to_floats(self) -> dict[str, float]:
        """For the log."""
        return {key: value for term in self.terms for key, value in term.to_floats().items()}

    def state_dict(self) -> list[Any]:
        """Of each one that has a state apart from the model's."""
        return [_state_of(term) for term in self.terms]

    def load_state_dict(self, states: Sequence[Any]) -> None:
        """Continue from saved states."""
        for term, state in zip(self.terms, states, strict=True):
            if isinstance(term, nn.Module):
                term.network.load_state_dict(state["network"])  # type: ignore[union-attr]
                term.set_extra_state(state["extra"])
            else:
                term.load_state_dict(state)


def _plain(forward: Callable[[], Any], loss: Callable[[Any], Any]) -> Any:
    return loss(forward())


def _state_of(term: Any) -> Any:
    if isinstance(term, nn.Module):
        network: Any = term.network
        return {"network": network.state_dict(), "extra": term.get_extra_state()}
    return term.state_dict()


def _made(name: str, model: nn.Module, options: Mapping[str, Any]) -> Any:
    if name not in REGULARIZERS:
        raise ValueError(f"The regulariser {name!r} is unknown: {nearest(name, REGULARIZERS)}")
    cls: Any = REGULARIZERS[name][0]
    given = dict(options)
    trunk: Any = getattr(model, "trunk", None)
    inner: Any = getattr(trunk, "model", None)
    if "module" not in given and hasattr(inner, "get_input_embeddings"):
        given["module"] = inner.get_input_embeddings()
        if name == "swep":
            given.setdefault("encoder", inner)
            given.setdefault("hidden_size", trunk.hidden)
    try:
        return cls(model, **given)
    except TypeError as error:
        raise ValueError(f"`regularize` {name!r}: {error}.") from error
