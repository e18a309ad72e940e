"""What is measured beside the scores: task cosines, distance, and what the model forgets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from gradaccord.probe.cosines import task_cosines
from gradaccord.probe.distance import Distance
from gradaccord.tasks.task import Task
from gradaccord.train.config import Config
from gradaccord.train.forgetting import Forgetting
from gradaccord.train.problem import Problem


class Probes:
    """The probes of a configuration; built before training, as they remember its start."""

    def __init__(self, config: Config, problem: Problem) -> None:
        self.config = config
        self.problem = problem
        chosen = config.probe
        self.distance = Distance(problem.model, within=["trunk"]) if chosen.distance else None
        self.cosines = chosen.cosine and len(problem.trained) > 1
        self.forgetting = Forgetting(config, problem) if chosen.masked_lm else None

    def measure(self, model: nn.Module, accelerator: Any) -> dict[str, Any]:
        """Everything as of now, ready for JSON. Training is not touched."""
        found: dict[str, Any] = {}
        if self.cosines:
            steps = self._steps(model, accelerator)
            measured = task_cosines(model, steps, batches=None, engine=accelerator)
            found["task_cosine"] = {
                "tasks": list(measured.tasks),
                "matrix": [[round(v, 6) for v in row] for row in measured.matrix.tolist()],
                "mean": measured.mean,
                "losses": measured.losses,
            }
        if self.distance is not None:
            moved = self.distance.measure()
            found["distance"] = {"total": moved.total, "layers": moved.layers}
        if self.forgetting is not None:
            found["masked_lm"] = self.forgetting.measure()
        return found

    def _steps(self, model: nn.Module, accelerator: Any) -> Iterator[dict[str, Any]]:
        """The same training batches at every measurement, spread over each task's data."""
        count = self.config.probe.cosine_batches
        size = self.config.train.batch_size
        device = accelerator.device
        rank, world = accelerator.process_index, accelerator.num_processes
        for i in range(count):
            step = {}
            for name in self.problem.trained:
                prepared = self.problem.prepared[name]
                encoded = prepared.encoded["train"]
                generator = torch.Generator().manual_seed(1000 + i)
                order = torch.randperm(len(encoded), generator=generator, device="cpu")
                rows = order[:size][rank::world]
                batch = {k: v.to(device) for k, v in encoded.batch(rows.tolist()).items()}
                step[name] = partial(_loss, prepared.task, model, name, batch)
            yield step

    def state_dict(self) -> dict[str, Any]:
        """Where the run started from, to measure distances to it after a restart."""
        return {} if self.distance is None else {"reference": dict(self.distance.reference)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        if self.distance is not None and "reference" in state:
            self.distance.reference = dict(state["reference"])


def _loss(task: Task[Any], model: nn.Module, name: str, batch: dict[str, torch.Tensor]) -> Any:
    return task.loss(model(name, batch), batch)
