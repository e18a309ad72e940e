"""Small problems for the methods that weigh task gradients."""

from __future__ import annotations

from unittest.mock import patch

import torch


def jacobian(n_tasks: int, seed: int, kind: str) -> torch.Tensor:
    torch.manual_seed(seed)
    rows = torch.randn(n_tasks, 5, dtype=torch.float64)
    if kind == "zero row":
        rows[seed % n_tasks] = 0
    elif kind == "all zero":
        rows.zero_()
    elif kind == "opposite":
        rows[1:] = -rows[:1]
    elif kind == "rank one":
        rows = rows[:, :1] @ rows[:1]
    elif kind == "scales":
        rows *= torch.logspace(-6, 6, n_tasks, dtype=torch.float64)[:, None]
    return rows


def in_order(order: torch.Tensor, n_tasks: int, others_only: bool):
    """Make TorchJD's calls of randperm follow `order`, whichever way it uses them."""
    calls = iter(range(n_tasks))

    def randperm(n: int) -> torch.Tensor:
        i = next(calls)
        chosen = order[i].tolist()
        if others_only:  # indices into the list of tasks without i
            return torch.tensor([j - (j > i) for j in chosen], dtype=torch.long)
        return torch.tensor([*chosen, i], dtype=torch.long)

    return patch("torch.randperm", randperm)


def rows(seed=3):
    return torch.randn(3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
