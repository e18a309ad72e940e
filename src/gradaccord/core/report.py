"""StepReport: what one call of `backward` measured and did."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class StepReport:
    """What a step measured, without an extra pass over the model. All tensors are float64 on the CPU.

    Gradients are those of the shared parameters; of a single task, those of all that it reaches.
    Methods that leave the gradient of a single task unchanged (Sum, PCGrad, GradVac, ConFIG) do not
    measure it.
    """

    tasks: tuple[str, ...]
    losses: torch.Tensor  # [T] mean loss of each task
    gram: torch.Tensor  # [T, T] dot products between the tasks' gradients; NaN if not measured
    weights: torch.Tensor  # [T] the weight given to each task, or [G, T] with a granularity
    groups: tuple[str, ...]  # the names of the groups that hold a shared parameter
    seconds: float
    finite: bool = True  # False: a task's gradient or what is in `.grad` holds inf or NaN
    extras: dict[str, float] = field(default_factory=dict)  # what only this method measures

    @property
    def norms(self) -> torch.Tensor:
        """[T] length of each task's gradient."""
        return self.gram.diagonal().clamp_min(0).sqrt()

    @property
    def cosines(self) -> torch.Tensor:
        """[T, T] cosine between the tasks' gradients; NaN where one of them is zero."""
        cosines = self.gram / (self.norms[:, None] * self.norms[None, :])
        cosines = cosines.clamp(-1, 1)
        cosines.diagonal()[self.norms > 0] = 1.0
        return cosines

    @property
    def pairs(self) -> dict[tuple[str, str], float]:
        """Cosine of every pair of tasks that both have a gradient."""
        cosines = self.cosines
        return {
            (first, second): float(cosines[i, j])
            for i, first in enumerate(self.tasks)
            for j, second in enumerate(self.tasks)
            if i < j and not torch.isnan(cosines[i, j])
        }

    @property
    def mean_cosine(self) -> float:
        """Mean over pairs of tasks; NaN without a pair."""
        values = list(self.pairs.values())
        return sum(values) / len(values) if values else float("nan")

    @property
    def conflicts(self) -> float:
        """Share of pairs of tasks whose gradients point apart (negative cosine); 0 without a pair, NaN
        if gradients were not measured.
        """
        values = list(self.pairs.values())
        if not values:
            unknown = len(self.tasks) > 1 and bool(torch.isnan(self.gram).any())
            return float("nan") if unknown else 0.0
        return sum(value < 0 for value in values) / len(values)

    def to_floats(self) -> dict[str, float]:
        """A flat dictionary of floats for any logger; weights are averaged over groups."""
        weights = self.weights if self.weights.ndim == 1 else self.weights.mean(0)
        floats: dict[str, float] = {}
        for i, task in enumerate(self.tasks):
            floats[f"loss/{task}"] = float(self.losses[i])
            floats[f"grad_norm/{task}"] = float(self.norms[i])
            floats[f"weight/{task}"] = float(weights[i])
        for (first, second), cosine in self.pairs.items():
            floats[f"cosine/{first}~{second}"] = cosine
        floats["mean_cosine"] = self.mean_cosine
        floats["conflicts"] = self.conflicts
        floats["finite"] = float(self.finite)
        floats["seconds"] = self.seconds
        return floats | self.extras
