"""Batch norm by inner step: its own scale, shift and running statistics at each (MAML++)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.distributed import ProcessGroup
from torch.nn.modules.batchnorm import _BatchNorm

from gradaccord.meta.learners.named_tensors import NamedTensors
from gradaccord.meta.network.general import Network, Params
from gradaccord.meta.reduce import sum_over_processes

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
        self.affine = NamedTensors()
        for name in self.names:
            tensor = own[name].detach()
            repeated = tensor.expand(steps, *tensor.shape).clone()
            self.affine.add(name, nn.Parameter(repeated, requires_grad=own[name].requires_grad))
        self.statistics = NamedTensors()
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
        self._moving = False  # inside a meta-iteration, which moves running statistics

    def at_step(self, step: int) -> dict[str, torch.Tensor]:
        """The norms' parameters at an inner step, and copies of their statistics if there are any."""
        step = min(step, self.steps - 1)
        found = {name: self.affine[name][step] for name in self.names}
        return found | {name: self.statistics[name][step].clone() for name in self.tracked}

    def moved_by(self, network: Network) -> Network:
        """The network; in a meta-iteration it moves the statistics among the parameters."""

        def moving(params: Params, inputs: torch.Tensor) -> torch.Tensor:
            if not self._moving:
                return network(params, inputs)
            # Copies for this forward pass, whose graph holds on to them.
            moved = {name: params[name].clone() for name in self.tracked} | self.counters
            outputs = network({**params, **moved}, inputs)
            for name in self.tracked:
                params[name].copy_(moved[name])
            return outputs

        return moving

    def moved(self, visited: list[tuple[int, Params]]) -> list[tuple[int, Params]]:
        """The statistics among the parameters that tasks had at the steps."""
        return [(step, {name: params[name] for name in self.tracked}) for step, params in visited]

    @torch.no_grad()
    def keep(self, moved: list[tuple[int, Params]], group: ProcessGroup | None) -> None:
        """Each statistic becomes the mean over the tasks of where it has moved."""
        sums = {name: torch.zeros_like(self.statistics[name]) for name in self.tracked}
        count = torch.zeros(self.steps, dtype=torch.float64, device="cpu")
        for step, statistics in moved:
            count[step] += 1
            for name, tensor in statistics.items():
                sums[name][step] += tensor
        if group is not None:
            sum_over_processes([count, *sums.values()], group)
        for name, total in sums.items():
            shape = (-1, *[1] * (total.ndim - 1))
            self.statistics[name].copy_(total / count.to(total).clamp_min(1).view(shape))

    @contextmanager
    def mode(self, model: nn.Module, training: bool) -> Iterator[None]:
        """Let the norms move their running statistics (training), or normalise by them."""
        before = [(norm, norm.training, norm.track_running_stats) for norm in norms_of(model).values()]
        self._moving = training
        try:
            for norm, _, _ in before:
                norm.training, norm.track_running_stats = training, True
            yield
        finally:
            self._moving = False
            for norm, mode, tracks in before:
                norm.training, norm.track_running_stats = mode, tracks
