"""Optimiser steps only on the rows of a large table that a batch uses: AdamW by rows, clipping."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

# Optimisers that can step rows alone, with no other options than these. SGD is torch's own; Adam is
# AdamW as long as no weight decays.
KNOWN = {
    "sgd": frozenset[str](),
    "adam": frozenset({"betas", "eps"}),
    "adamw": frozenset({"betas", "eps", "weight_decay"}),
}


class RowAdamW(torch.optim.AdamW):
    """AdamW that treats each row of a sparse gradient as a separate parameter.

        t_r <- t_r + 1                                              rows r of the gradient alone
        m_r <- b1 m_r + (1 - b1) g_r,  v_r <- b2 v_r + (1 - b2) g_r^2
        w_r <- (1 - lr wd) w_r - lr (m_r / (1 - b1^t_r)) / (sqrt(v_r / (1 - b2^t_r)) + eps)

    Other rows stay as they are: their moments do not fade, and their weights neither decay nor follow
    an old moment, as they do under AdamW on the whole table. A row that occurs in every step is stepped
    as there. In torch's SparseAdam t counts all steps, so the first step of a row that comes late is
    (1 - b1) / sqrt(1 - b2), about three times, as long. Parameters with dense gradients are stepped by
    torch's AdamW. Cost: that of the rows; the moments take memory for the whole table.
    """

    def __init__(self, params: Any, lr: float, **options: Any) -> None:
        super().__init__(params, lr=lr, **options)
        self._step_supports_amp_scaling = False  # by which a scaler would leave gradients scaled

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step of all parameters."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        taken: list[tuple[torch.Tensor, torch.Tensor]] = []
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    self._step_rows(group, parameter, parameter.grad.coalesce())
                    taken.append((parameter, parameter.grad))
                    parameter.grad = None
        super().step()
        for parameter, gradient in taken:
            parameter.grad = gradient
        return loss

    def _step_rows(self, group: dict[str, Any], table: torch.Tensor, gradient: torch.Tensor) -> None:
        state = self.state[table]
        if not state:
            state["step"] = table.new_zeros((len(table), 1), dtype=torch.float32)
            state["exp_avg"] = torch.zeros_like(table)
            state["exp_avg_sq"] = torch.zeros_like(table)
        rows, g = gradient.indices()[0], gradient.values()
        (b1, b2), lr = group["betas"], group["lr"]
        t, m, v, w = (
            one[rows] for one in (state["step"], state["exp_avg"], state["exp_avg_sq"], table)
        )
        t += 1
        m.lerp_(g, 1 - b1)
        v.mul_(b2).addcmul_(g, g, value=1 - b2)
        seen = t.to(torch.float64)
        size = (lr / (1 - b1**seen)).to(w.dtype)
        root = (1 - b2**seen).sqrt().to(w.dtype)
        w.mul_(1 - lr * group["weight_decay"]).sub_(size * m / (v.sqrt() / root + group["eps"]))
        for whole, part in zip(
            (state["step"], state["exp_avg"], state["exp_avg_sq"], table), (t, m, v, w), strict=True
        ):
            whole.index_copy_(0, rows, part)


def steps_rows(name: str, options: Iterable[str]) -> bool:
    """Whether an optimiser that is given these options can step the rows of a table alone."""
    return name in KNOWN and KNOWN[name].issuperset(options)


def clippable(parameters: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Parameters for `clip_grad_norm_`: a sparse gradient is replaced by the values of its rows."""
    found = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            values = parameter.grad.values()
            parameter = torch.empty_like(values)
            parameter.grad = values
        found.append(parameter)
    return found
