"""How far two outputs of a model are apart: one divergence for each kind of task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional as F

Outputs = tuple[torch.Tensor, ...]


def read_outputs(kind: str, outputs: Any) -> Outputs:
    """The tensors of an output: itself, or a Hugging Face output's logits (of both span ends)."""
    wanted = ("start_logits", "end_logits") if kind == "span" else ("logits",)
    if isinstance(outputs, torch.Tensor) and kind != "span":
        return (outputs,)
    if isinstance(outputs, Mapping) or any(hasattr(outputs, name) for name in wanted):
        mapped = isinstance(outputs, Mapping)
        found = [outputs.get(n) if mapped else getattr(outputs, n, None) for n in wanted]
    else:
        found = list(outputs) if kind == "span" and isinstance(outputs, tuple) else []
    tensors = tuple(t for t in found if isinstance(t, torch.Tensor))
    if len(tensors) != len(wanted):
        what = "a pair (start logits, end logits)" if kind == "span" else "a tensor of outputs"
        raise TypeError(
            f"kind={kind!r} compares {what}, or an object with {' and '.join(wanted)}; the forward "
            f"callable returned {type(outputs).__name__}."
        )
    return tensors


def per_example(
    kind: str, first: Outputs, second: Outputs, counted: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The divergence of each example (or position), and which of them count.

    classification: symmetric KL, KL(p|q) + KL(q|p), of logits [batch, classes];
    binary: the same of single logits, one per example (or label);
    tokens: symmetric KL at every position of logits [batch, length, classes];
    span: symmetric KL over positions, summed over the start and the end, of two logits
        [batch, length]; positions that do not count have no probability;
    regression: squared difference of every number.
    Computed in float32 at least.
    """
    if kind not in KINDS:
        raise ValueError(f"`kind` is {kind!r}: use one of {', '.join(map(repr, KINDS))}.")
    if any(a.shape != b.shape for a, b in zip(first, second, strict=True)):
        raise ValueError(
            f"Outputs of shapes {[tuple(t.shape) for t in first]} and "
            f"{[tuple(t.shape) for t in second]} cannot be compared: the forward callable must "
            "compute the same batch at every call."
        )
    a, b = ([_wide(t) for t in side] for side in (first, second))
    if kind == "span":
        if counted is not None:
            counted = _fitting(counted, a[0])
            lowest = torch.finfo(a[0].dtype).min
            a, b = ([t.masked_fill(~counted, lowest) for t in side] for side in (a, b))
        values = symmetric_kl(a[0], b[0]) + symmetric_kl(a[1], b[1])
        return values, torch.ones_like(values, dtype=torch.bool)
    if kind in ("classification", "tokens") and a[0].ndim != (3 if kind == "tokens" else 2):
        shape = "[batch, length, classes]" if kind == "tokens" else "[batch, classes]"
        raise ValueError(f"kind={kind!r} needs logits {shape}, got the shape {tuple(a[0].shape)}.")
    values = KINDS[kind](a[0], b[0])
    if kind != "tokens" or counted is None:
        return values, torch.ones_like(values, dtype=torch.bool)
    return values, _fitting(counted, values)


def divergence(
    kind: str, first: Outputs, second: Outputs, counted: torch.Tensor | None = None
) -> torch.Tensor:
    """The mean of `per_example` over what counts; 0 where nothing does."""
    values, which = per_example(kind, first, second, counted)
    return values.masked_fill(~which, 0.0).sum() / which.sum().clamp_min(1)


def symmetric_kl(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """KL(p|q) + KL(q|p) = sum (p - q)(log p - log q) over the last dimension of two logits."""
    log_p, log_q = F.log_softmax(a, -1), F.log_softmax(b, -1)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1)


def _binary(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.sigmoid() - b.sigmoid()) * (a - b)


def _squared(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a - b).square()


KINDS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "classification": symmetric_kl,
    "binary": _binary,
    "tokens": symmetric_kl,
    "span": symmetric_kl,
    "regression": _squared,
}


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _fitting(counted: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    if counted.shape != values.shape:
        raise ValueError(
            f"`counted` has the shape {tuple(counted.shape)} and the outputs have "
            f"{tuple(values.shape)} positions: give one entry for each position of the output."
        )
    return counted.to(values.device, torch.bool)
