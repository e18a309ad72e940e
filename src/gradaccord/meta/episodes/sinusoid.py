"""Few-shot regression of sine waves (Finn et al. 2017): a task is y = A sin(x + p), its own A and p.

    waves = Sinusoids(shots=10, queries=10, tasks=25)
    learner = MAML(network, inner_lr=0.01, inner_steps=1, loss=torch.nn.functional.mse_loss)

Amplitude A in [0.1, 5], phase p in [0, pi], x in [-5, 5], all uniform.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from gradaccord.core.checks import whole_number
from gradaccord.meta.episodes.task_batch import TaskBatch

AMPLITUDE = (0.1, 5.0)
PHASE = (0.0, math.pi)
INPUTS = (-5.0, 5.0)


class Sinusoids(Iterator[TaskBatch]):
    """An endless iterator of sine-wave tasks: inputs [tasks, n, 1], targets [tasks, n, 1].

    shots, queries: points of the support and query set.
    tasks: in a batch.
    seed: of the random draws.
    """

    def __init__(
        self,
        *,
        shots: int = 10,
        queries: int = 10,
        tasks: int = 25,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        for field, value in (("shots", shots), ("queries", queries), ("tasks", tasks)):
            whole_number(field, value)
        self.shots, self.queries, self.tasks, self.dtype = shots, queries, tasks, dtype
        self.generator = torch.Generator().manual_seed(seed)
        self.step = 0

    def __next__(self) -> TaskBatch:
        amplitude, phase = self._uniform(AMPLITUDE, 1), self._uniform(PHASE, 1)
        x = self._uniform(INPUTS, self.shots + self.queries)
        y = amplitude * torch.sin(x + phase)
        self.step += 1
        (x_support, x_query), (y_support, y_query) = (
            torch.split(part.unsqueeze(-1).to(self.dtype), [self.shots, self.queries], 1)
            for part in (x, y)
        )
        return TaskBatch(x_support, y_support, x_query, y_query)

    def state_dict(self) -> dict[str, Any]:
        """Position and generator."""
        return {"step": self.step, "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved position."""
        self.step = int(state["step"])
        self.generator.set_state(state["generator"].cpu())

    def _uniform(self, between: tuple[float, float], points: int) -> torch.Tensor:
        low, high = between
        drawn = torch.rand(
            self.tasks, points, generator=self.generator, dtype=torch.float64, device="cpu"
        )
        return low + (high - low) * drawn
