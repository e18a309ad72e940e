"""What a user may hand to `backward`, read into one form and checked before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

Loss: TypeAlias = torch.Tensor | tuple[torch.Tensor, float]
LossFn: TypeAlias = Callable[[], Loss]
SharedFn: TypeAlias = Callable[[], Mapping[str, Loss]]
Losses: TypeAlias = (
    Mapping[str, LossFn | Sequence[LossFn]]
    | Sequence[tuple[str, LossFn | Sequence[LossFn]]]
    | SharedFn
    | Sequence[SharedFn]
)


@dataclass(frozen=True)
class OwnBatches:
    """Every task has its own batch: a list of micro-batches of one callable each."""

    tasks: dict[str, list[LossFn]]


@dataclass(frozen=True)
class SharedBatch:
    """One batch under several heads: each micro-batch is a callable that gives all the losses."""

    calls: list[SharedFn]


def read_losses(losses: Losses) -> OwnBatches | SharedBatch:
    """Read the forms of `losses`: a mapping, (name, callable) pairs, or one shared callable."""
    if callable(losses):
        return SharedBatch([losses])
    if isinstance(losses, Mapping):
        pairs: list[tuple[Any, Any]] = list(losses.items())
    elif isinstance(losses, Sequence) and losses and all(callable(item) for item in losses):
        return SharedBatch(list(losses))  # type: ignore[arg-type]
    elif isinstance(losses, Sequence) and all(
        isinstance(item, tuple) and len(item) == 2 for item in losses
    ):
        pairs = list(losses)  # type: ignore[arg-type]
    else:
        raise TypeError(
            "`losses` must map task names to callables, or be one callable that returns a mapping "
            f"of losses, got {type(losses).__name__}."
        )
    if not pairs:
        raise ValueError("`losses` is empty: give at least one task.")
    tasks: dict[str, list[LossFn]] = {}
    for name, calls in pairs:
        if not isinstance(name, str):
            raise TypeError(f"A task name must be a string, got {name!r}.")
        if name in tasks:
            raise ValueError(f"Task {name!r} is given twice in `losses`: names must differ.")
        tasks[name] = _micro_batches(name, calls)
    return OwnBatches(tasks)


def _micro_batches(name: str, calls: Any) -> list[LossFn]:
    listed = [calls] if callable(calls) else calls
    if isinstance(listed, torch.Tensor):
        raise TypeError(
            f"Task {name!r} is given as a tensor: pass a callable that computes the loss, "
            "e.g. functools.partial(loss_fn, model, batch)."
        )
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise TypeError(
            f"Task {name!r} must be a callable that returns a loss, or a list of them, got {calls!r}."
        )
    if not listed:
        raise ValueError(f"Task {name!r} has an empty list of micro-batches.")
    for call in listed:
        if not callable(call):
            raise TypeError(f"Task {name!r} has a micro-batch that is not callable: {call!r}.")
    return list(listed)


def extras_of(batches: OwnBatches | SharedBatch) -> dict[str, float]:
    """What callables with an `extras()` add to the report."""
    if isinstance(batches, SharedBatch):
        calls: list[Any] = list(batches.calls)
    else:
        calls = [call for listed in batches.tasks.values() for call in listed]
    found: dict[str, float] = {}
    for call in calls:
        if callable(extras := getattr(call, "extras", None)):
            found |= extras()
    return found


def read_loss(name: str, value: Loss) -> tuple[torch.Tensor, float | None]:
    """Check what a callable returned: a scalar loss, or (mean loss, number of items)."""
    loss: Any = value
    items: Any = None
    if isinstance(value, tuple):
        if len(value) != 2:
            raise TypeError(
                f"Task {name!r} returned a tuple of {len(value)}: return the loss, or "
                "(mean loss, number of items)."
            )
        loss, items = value
        if isinstance(items, torch.Tensor) and items.numel() == 1 and not items.requires_grad:
            items = items.item()
        if isinstance(items, bool) or not isinstance(items, int | float):
            raise TypeError(
                f"Task {name!r} returned a pair whose second part is a {type(items).__name__}: return "
                "the loss alone, or (mean loss, number of items)."
            )
        items = float(items)
        if not 0 < items < float("inf"):
            raise ValueError(f"Task {name!r} returned {items} items: the count must be positive.")
    if isinstance(getattr(loss, "loss", None), torch.Tensor):
        raise TypeError(f"Task {name!r} returned a {type(loss).__name__}: return its `.loss`.")
    if not isinstance(loss, torch.Tensor):
        raise TypeError(f"Task {name!r} returned {loss!r}: the loss must be a scalar tensor.")
    if loss.numel() != 1:
        raise ValueError(
            f"Task {name!r} returned a loss of shape {tuple(loss.shape)}: reduce it to a scalar."
        )
    if not loss.requires_grad:
        raise ValueError(
            f"Task {name!r} returned the loss {loss.item():g} without a gradient: compute it from "
            "trainable parameters, outside torch.no_grad()."
        )
    return loss, items


def read_shared(value: Mapping[str, Loss]) -> dict[str, tuple[torch.Tensor, float | None]]:
    """Check what the callable of a shared batch returned: a mapping from task name to loss."""
    if not isinstance(value, Mapping):
        raise TypeError(
            "The one callable in `losses` must return a mapping from task name to loss, "
            f"got {type(value).__name__}."
        )
    if not value:
        raise ValueError("The one callable in `losses` returned no loss: give at least one task.")
    for name in value:
        if not isinstance(name, str):
            raise TypeError(f"A task name must be a string, got {name!r}.")
    return {name: read_loss(name, loss) for name, loss in value.items()}
