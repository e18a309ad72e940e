"""Gradient sharing: every task's inner step also follows a running mean over all tasks' steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.distributed import ProcessGroup

from gradaccord.meta.per_tensor import PerTensor
from gradaccord.meta.processes import SumInGraph

TINY = 1e-12  # the least length that a gradient is divided by


class GradientSharing(nn.Module):
    """Gradient sharing in the inner loop (Chang & Lipson 2020, Algorithm 1).

        g_k = sum_t G_tk / |sum_t G_tk|                    G_tk: task t's gradient at inner step k
        mean_k <- g_k at first, then  s(m_k) g_k + (1 - s(m_k)) mean_k       (the old one as a constant)
        task t descends along  s(lambda_k) mean_k + (1 - s(lambda_k)) G_tk   (s: logistic function)

    m and lambda are learned, one of each a step, from 0. The norm is over all adapted weights. The
    mean has length at most 1, so lambda also rescales the step. At test the means stand still, and
    steps beyond K use those of step K; before the first meta-update there is none and tasks follow
    their own gradients. s(lambda) near 1 marks failure: a task's own gradient is masked out.
    Cost: no batch gradient, K copies of the weights, and the graphs of all tasks at the same time.
    """

    def __init__(self, names: Sequence[str], weights: Sequence[torch.Tensor], steps: int) -> None:
        super().__init__()
        self.names, self.steps = tuple(names), steps
        self.m = nn.Parameter(weights[0].detach().new_zeros(steps))
        self.lam = nn.Parameter(self.m.detach().clone())
        self.means = PerTensor()
        for name, weight in zip(names, weights, strict=True):
            self.means.add(name, weight.detach().new_zeros(steps, *weight.shape))
        self.filled: torch.Tensor
        self.register_buffer("filled", torch.zeros((), dtype=torch.bool))
        self._next: dict[int, list[torch.Tensor]] = {}

    def directions(
        self, gradients: list[list[torch.Tensor]], step: int, group: ProcessGroup | None
    ) -> list[list[torch.Tensor]]:
        """What each task descends along, differentiable; the new mean waits for `commit`."""
        total = [torch.stack(each).sum(0) for each in zip(*gradients, strict=True)]
        if group is not None:
            total = _over_processes(total, group)
        square = torch.stack([(tensor * tensor).sum() for tensor in total]).sum()
        shared = 1 / square.clamp_min(TINY**2).sqrt()
        if self.filled:
            weight = torch.sigmoid(self.m[step])
            old = [kept * (1 - weight) for kept in self._kept(step)]
            mean = [torch.addcmul(o, t, weight * shared) for o, t in zip(old, total, strict=True)]
        else:
            mean = [tensor * shared for tensor in total]
        self._next[step] = [tensor.detach() for tensor in mean]
        weight = torch.sigmoid(self.lam[step])
        common = [tensor * weight for tensor in mean]
        return [
            [torch.addcmul(c, g, 1 - weight) for c, g in zip(common, own, strict=True)]
            for own in gradients
        ]

    def frozen_direction(self, gradient: list[torch.Tensor], step: int) -> list[torch.Tensor]:
        """What a task descends along at test."""
        if not self.filled:
            return gradient
        step = min(step, self.steps - 1)
        weight = torch.sigmoid(self.lam[step])
        kept = self._kept(step)
        return [weight * mean + (1 - weight) * own for mean, own in zip(kept, gradient, strict=True)]

    def begin(self) -> None:
        """Forget means that were not committed."""
        self._next = {}

    def commit(self) -> None:
        """Make this meta-iteration's means the running ones."""
        for step, mean in self._next.items():
            for name, tensor in zip(self.names, mean, strict=True):
                self.means[name][step] = tensor
        self.filled.fill_(True)
        self._next = {}

    def sigma(self) -> dict[str, tuple[float, ...]]:
        """s(m) and s(lambda) of each step."""
        return {
            "sigma_m": tuple(torch.sigmoid(self.m.detach()).tolist()),
            "sigma_lambda": tuple(torch.sigmoid(self.lam.detach()).tolist()),
        }

    def _kept(self, step: int) -> list[torch.Tensor]:
        return [self.means[name][step] for name in self.names]


def _over_processes(total: list[torch.Tensor], group: ProcessGroup) -> list[torch.Tensor]:
    """The sum over processes, in one message whose gradient travels back."""
    flat: torch.Tensor = SumInGraph.apply(torch.cat([t.reshape(-1) for t in total]), group)  # type: ignore[no-untyped-call]
    parts = torch.split(flat, [tensor.numel() for tensor in total])
    return [part.view_as(tensor) for part, tensor in zip(parts, total, strict=True)]
