"""Batch norm by inner step: its own scale, shift and running statistics at each (MAML++)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.distributed import ProcessGroup
from torch.nn.modules.batchnorm import _BatchNorm

from gradaccord.meta.network import Params
from gradaccord.meta.per_tensor import PerTensor
from gradaccord.meta.processes import sum_over_processes

STATISTICS = ("running_mean", "running_var")


def norms_of(model: nn.Module) -> dict[str, _BatchNorm]:
    """The batch norms of a model, by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, _BatchNorm)}


def affine_names(model: nn.Module) -> list[str]:
    """The names of all scales and shifts of batch norms; tied ones by their first name."""
    own = dict(model.named_parameters())
    names = [f"{name}.{kind}" for name in norms_of(model) for kind in ("weight", "bias")]
    return [name for name in names if name in own]


class StepNorms(nn.Module):
    """Scale and shift of every batch norm at each of K inner steps, started from the model's own.

    They are learned outside the inner loop. Steps beyond K use the last. `tracks`: also keep running
    means and variances by step, from all training tasks, and by them predict at test.
    """

    def __init__(self, model: nn.Module, steps: int, tracks: bool) -> None:
        super().__init__()
        self.steps, self.tracks = steps, tracks
        own = dict(model.named_parameters())
        self.names = affine_names(model)
        self.affine = PerTensor()
        for name in self.names:
            tensor = own[name].detach()
            repeated = tensor.expand(steps, *tensor.shape).clone()
            self.affine.add(name, nn.Parameter(repeated, requires_grad=own[name].requires_grad))
        self.statistics = PerTensor()
        self.tracked: list[str] = []
        self.counters: dict[str, torch.Tensor] = {}  # stand in for the model's own, which stay
        if tracks:
            for name, norm in norms_of(model).items():
                if not norm.track_running_stats or norm.momentum is None:
                    raise ValueError(
                        f"`statistics` is 'running' and the batch norm {name!r} has no moving "
                        "averages: build it with track_running_stats=True and a momentum, or use "
                        "statistics='batch'."
                    )
                self.counters[f"{name}.num_batches_tracked"] = torch.zeros(
                    (), dtype=torch.int64, device="cpu"
                )
                for kind in STATISTICS:
                    tensor = getattr(norm, kind)
                    self.tracked.append(f"{name}.{kind}")
                    self.statistics.add(self.tracked[-1], tensor.expand(steps, *tensor.shape).clone())
        self._seen: list[tuple[int, dict[str, torch.Tensor]]] = []

    def at_step(self, step: int, training: bool) -> dict[str, torch.Tensor]:
        """The norms' parameters at an inner step, and their statistics if there are any.

        In training the statistics are copies that `forward` passes move on and `commit` collects.
        """
        step = min(step, self.steps - 1)
        found = {name: self.affine[name][step] for name in self.names}
        statistics = {name: self.statistics[name][step].clone() for name in self.tracked}
        if training and self.tracks:
            self._seen.append((step, statistics))
        return found | statistics

    def apart(self, params: Params) -> dict[str, torch.Tensor]:
        """Copies of the statistics for one forward pass, whose graph holds on to them."""
        return {name: params[name].clone() for name in self.tracked} | self.counters

    def begin(self) -> None:
        """Forget what was not committed."""
        self._seen = []

    @torch.no_grad()
    def commit(self, group: ProcessGroup | None) -> None:
        """Each statistic becomes the mean over the tasks of where it has moved."""
        sums = {name: torch.zeros_like(self.statistics[name]) for name in self.tracked}
        count = torch.zeros(self.steps, dtype=torch.float64, device="cpu")
        for step, moved in self._seen:
            count[step] += 1
            for name, tensor in moved.items():
                sums[name][step] += tensor
        if group is not None:
            sum_over_processes([count, *sums.values()], group)
        for name, total in sums.items():
            shape = (-1, *[1] * (total.ndim - 1))
            self.statistics[name].copy_(total / count.to(total).clamp_min(1).view(shape))
        self._seen = []

    @contextmanager
    def mode(self, model: nn.Module, training: bool) -> Iterator[None]:
        """Let the norms move their running statistics (training), or normalise by them."""
        before = [(norm, norm.training, norm.track_running_stats) for norm in norms_of(model).values()]
        try:
            for norm, _, _ in before:
                norm.training, norm.track_running_stats = training, True
            yield
        finally:
            for norm, mode, tracks in before:
                norm.training, norm.track_running_stats = mode, tracks
