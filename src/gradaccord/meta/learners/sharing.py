"""Gradient sharing: every task's inner step also follows a running mean over all tasks' steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.distributed import ProcessGroup

from gradaccord.meta.learners.named_tensors import NamedTensors
from gradaccord.meta.reduce import SumInGraph

TINY = 1e-12  # the least length that a gradient is divided by


class GradientSharing(nn.Module):
    """Gradient sharing in the inner loop (Chang & Lipson 2020, Algorithm 1).

        g_k = sum_t G_tk / |sum_t G_tk|                    G_tk: task t's gradient at inner step k
        mean_k <- g_k at first, then  s(m_k) g_k + (1 - s(m_k)) mean_k       (the old one as a constant)
        task t descends along  s(lambda_k) mean_k + (1 - s(lambda_k)) G_tk   (s: logistic function)

    m and lambda are learned, one of each per inner step, starting at 0. The norm is over all adapted
    weights. The mean has length at most 1, so lambda also rescales the step. At test the means stay
    fixed, and steps beyond K use the mean of step K; before the first meta-update there are no means
    yet, and each task follows its own gradient. s(lambda) near 1 marks failure: a task's own gradient
    is masked out. Cost: no extra batch gradient, K copies of the weights, and the graphs of all tasks
    at the same time.
    """

    def __init__(self, names: Sequence[str], weights: Sequence[torch.Tensor], steps: int) -> None:
        super().__init__()
        self.names, self.steps = tuple(names), steps
        self.m = nn.Parameter(weights[0].detach().new_zeros(steps))
        self.lam = nn.Parameter(self.m.detach().clone())
        self.means = NamedTensors()
        for name, weight in zip(names, weights, strict=True):
            self.means.add(name, weight.detach().new_zeros(steps, *weight.shape))
        self.filled: torch.Tensor
        self.register_buffer("filled", torch.zeros((), dtype=torch.bool, device="cpu"))

    def directions(
        self, gradients: list[list[torch.Tensor]], step: int, group: ProcessGroup | None
    ) -> tuple[list[list[torch.Tensor]], list[torch.Tensor]]:
        """What each task descends along, differentiable; and the new mean, to be kept."""
        last = [_is_channels_last(tensor) for tensor in gradients[0]]
        own = torch.cat([part for each in gradients for part in _flat(each, last)])
        own = own.view(len(gradients), -1)
        total = own.sum(0)
        if group is not None:
            total = SumInGraph.apply(total, group)  # type: ignore[no-untyped-call]
        shared = 1 / total.dot(total).clamp_min(TINY**2).sqrt()
        if self.filled:
            weight = torch.sigmoid(self.m[step])
            old = torch.cat(_flat(self._kept(step), last))
            mean = torch.addcmul(old * (1 - weight), total, weight * shared)
        else:
            mean = total * shared
        new_mean = _parts(mean.detach(), gradients[0], last)
        weight = torch.sigmoid(self.lam[step])
        directions = torch.addcmul(mean * weight, own, 1 - weight)
        return [_parts(row, gradients[0], last) for row in directions.unbind(0)], new_mean

    def frozen_direction(self, gradient: list[torch.Tensor], step: int) -> list[torch.Tensor]:
        """What a task descends along at test."""
        if not self.filled:
            return gradient
        step = min(step, self.steps - 1)
        weight = torch.sigmoid(self.lam[step])
        kept = self._kept(step)
        return [weight * mean + (1 - weight) * own for mean, own in zip(kept, gradient, strict=True)]

    def keep(self, means: Sequence[Sequence[torch.Tensor]]) -> None:
        """Take these means, one per step, as the running ones."""
        for step, mean in enumerate(means):
            for name, tensor in zip(self.names, mean, strict=True):
                self.means[name][step] = tensor
        self.filled.fill_(True)

    def sigma(self) -> dict[str, tuple[float, ...]]:
        """s(m) and s(lambda) of each step."""
        return {
            "sigma_m": tuple(torch.sigmoid(self.m.detach()).tolist()),
            "sigma_lambda": tuple(torch.sigmoid(self.lam.detach()).tolist()),
        }

    def _kept(self, step: int) -> list[torch.Tensor]:
        return [self.means[name][step] for name in self.names]


# All weights in one vector, each in the order of its memory: a dozen operations on it are faster than
# as many on every tensor.


def _is_channels_last(tensor: torch.Tensor) -> bool:
    if tensor.dim() != 4 or tensor.is_contiguous():
        return False
    return tensor.is_contiguous(memory_format=torch.channels_last)


def _flat(tensors: Sequence[torch.Tensor], last: Sequence[bool]) -> list[torch.Tensor]:
    return [
        (tensor.permute(0, 2, 3, 1) if turn else tensor).reshape(-1)
        for tensor, turn in zip(tensors, last, strict=True)
    ]


def _parts(
    vector: torch.Tensor, like: Sequence[torch.Tensor], last: Sequence[bool]
) -> list[torch.Tensor]:
    """The vector's parts in the shapes of the tensors."""
    parts = torch.split(vector, [tensor.numel() for tensor in like])
    return [
        part.view(tensor.permute(0, 2, 3, 1).shape).permute(0, 3, 1, 2)
        if turn
        else part.view(tensor.shape)
        for part, tensor, turn in zip(parts, like, last, strict=True)
    ]
