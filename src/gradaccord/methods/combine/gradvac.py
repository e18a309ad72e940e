"""GradVac: raise each pair's gradient cosine to what it usually is."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import torch

from gradaccord.core.parameters import Model
from gradaccord.methods.combine.combination import Combination, Measured, projection_order

MAX_TARGET = 1 - 1e-6  # a target of 1 would ask for infinitely much of g_j
# Squares smaller than this share of what they were computed from are float32 rounding: a gradient of
# which nothing else is left has no direction, and an angle below a thousandth is none.
ROUNDING = 1e-6


class GradVac(Combination):
    """Gradient vaccine (Wang et al. 2021, "Gradient Vaccine").

        for each i, over j != i in random order, with c = cos(g_i', g_j) and its target c*:
            if c < c*:  g_i' += |g_i'| (c* sqrt(1-c^2) - c sqrt(1-c*^2)) / (|g_j| sqrt(1-c*^2)) g_j
            c* <- (1 - beta) c* + beta c                      (always, with c from before)
        g = sum_i g_i'

    Targets are kept per ordered pair and per group of parameters, start at 0, and do not change while a
    task is absent or has no gradient. Cost: T batch gradients, T gradients of memory. With beta = 0 it
    is `PCGrad`. `granularity="layer"` is the setting of the paper's experiments.

    beta: how fast a target follows the measured cosines.
    """

    keeps_a_lone_task = True

    def __init__(self, model: Model, *, beta: float = 0.01, **options: Any) -> None:
        super().__init__(model, **options)
        if not isinstance(beta, int | float) or not 0 <= beta <= 1:
            raise ValueError(f"`beta` is {beta!r}: it must lie between 0 and 1.")
        self.beta = beta
        self.tasks: list[str] = []  # every task seen so far
        self.targets = torch.zeros(len(self.partition.groups), 0, 0, dtype=torch.float64, device="cpu")

    def weigh(self, measured: Measured) -> torch.Tensor:
        self._add_tasks(measured.tasks)
        index = torch.tensor([self.tasks.index(task) for task in measured.tasks], device="cpu")
        order = projection_order(len(index), self.generator)
        targets = self.targets[:, index[:, None], index]
        weights, targets = gradvac_weights(measured.grams, targets, order, self.beta)
        self.targets[:, index[:, None], index] = targets
        return weights

    def _add_tasks(self, tasks: tuple[str, ...]) -> None:
        new = [task for task in tasks if task not in self.tasks]
        if new:
            self.tasks = self.tasks + new
            self.targets = torch.nn.functional.pad(self.targets, (0, len(new), 0, len(new)))

    def _state(self) -> dict[str, Any]:
        return super()._state() | {
            "tasks": list(self.tasks),
            "groups": list(self.partition.groups),
            "targets": self.targets.clone(),
        }

    def _load(self, state: dict[str, Any]) -> None:
        groups = list(self.partition.groups)
        saved = list(state.get("groups", groups))
        if saved != groups:
            there, here = next((a, b) for a, b in zip_longest(saved, groups) if a != b)
            raise ValueError(
                f"The state has targets for {len(saved)} groups of parameters, and this method has "
                f"{len(groups)} (the first to differ: {there!r} there, {here!r} here): use the same "
                "model and `granularity`."
            )
        super()._load(state)
        self.tasks = list(state["tasks"])
        self.targets = state["targets"].to("cpu", torch.float64, copy=True)


def gradvac_weights(
    gram: torch.Tensor, targets: torch.Tensor, order: torch.Tensor, beta: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """GradVac in coefficients: gram and targets [..., T, T], order [T, T - 1].

    Returns the weights [..., T] and the new targets. All i advance together: each step of the loop
    meets a different pair for every i.
    """
    tasks = torch.arange(len(order), device=gram.device)
    targets = targets.clone()
    coefficients = torch.eye(len(tasks), dtype=gram.dtype, device=gram.device)
    coefficients = coefficients.expand(gram.shape).clone()
    lengths = gram.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt()
    for j in order.T:
        dot = (coefficients * gram[..., j, :]).sum(-1)
        square_i = ((coefficients @ gram) * coefficients).sum(-1)
        length_i, length_j = square_i.clamp_min(0).sqrt(), lengths[..., j]
        # What is left of a gradient that another has cancelled has no direction of its own.
        whole_i = (coefficients.abs() * lengths[..., None, :]).sum(-1)
        defined = (square_i > ROUNDING * whole_i**2) & (length_j > 0)
        cosine = torch.where(defined, dot / (length_i * length_j), 0.0).clamp(-1, 1)
        cosine = torch.where(1 - cosine**2 < ROUNDING, cosine.sign(), cosine)
        target = targets[..., tasks, j]
        aim = target.clamp(-MAX_TARGET, MAX_TARGET)
        sine, aim_sine = (1 - cosine**2).sqrt(), (1 - aim**2).sqrt()
        amount = length_i * (aim * sine - cosine * aim_sine) / (length_j * aim_sine)
        coefficients[..., tasks, j] += torch.where(defined & (cosine < aim), amount, 0.0)
        moved = (1 - beta) * target + beta * cosine
        targets[..., tasks, j] = torch.where(defined, moved, target)
    return coefficients.sum(-2), targets
