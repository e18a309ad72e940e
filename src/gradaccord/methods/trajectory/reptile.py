"""Reptile: several steps, then a move part of the way to where they led, on one task or several."""

from __future__ import annotations

from typing import Any

import torch

from gradaccord.core.checks import whole_number
from gradaccord.core.losses import Losses, SharedBatch, read_losses
from gradaccord.core.parameters import Model
from gradaccord.core.report import StepReport
from gradaccord.core.sharding import local
from gradaccord.core.temporary_weights import weights_moved
from gradaccord.methods.trajectory.outer_weights import loaded, saved
from gradaccord.methods.trajectory.trajectory import OptimizerState, Trajectory


class Reptile(Trajectory):
    """Reptile on a single task (Nichol et al. 2018; as a baseline in Kedia et al. 2021, k = 4).

        theta = phi
        k times, each on the next batch:  theta <- Opt(theta, grad L(theta; b_j))
        phi <- phi + eta (theta - phi)

    Aligns the gradients of the k batches, with a weight tied to the inner step length. Cost: one batch
    gradient a step and one copy of the weights. outer_lr=1 is plain training, bit for bit: smaller
    values are needed for any effect, and make the run slower. The moments are kept, as in the
    original code: k steps are too few for fresh ones. For several tasks see `MultiTaskReptile` (one
    trajectory a task) and `SequentialReptile` (one through all tasks).
    """

    def __init__(
        self,
        model: Model,
        optimizer: Any = None,
        *,
        inner_steps: int = 4,
        outer_lr: float = 0.5,
        optimizer_state: OptimizerState = "keep",
        **options: Any,
    ) -> None:
        super().__init__(model, optimizer, inner_steps, outer_lr, optimizer_state, **options)

    def _update(self, names: list[str], theta: list[torch.Tensor], phi: list[torch.Tensor]) -> None:
        if self.outer_lr == 1:
            return  # theta is the new phi: plain training, of which no bit may change
        torch._foreach_lerp_(theta, phi, 1 - self.outer_lr)
        self._reset(names)


class MultiTaskReptile(Trajectory):
    """Reptile over several tasks (Nichol et al. 2018), as multi-task method in Lee et al. 2022.

        for each of T tasks:  theta_t = phi,  K times: theta_t <- Opt(theta_t, grad L_t(theta_t))
        phi <- phi + eta mean_t(theta_t - phi)

    Give `backward` one task for `inner_steps` steps; `after_step` then returns the weights to phi, and
    the next task may come. After `tasks` trajectories the mean displacement is applied. `step == 0`
    says that the next task is due. Cost: T K batch gradients an update and two copies of the weights.
    Use it as the baseline of `SequentialReptile`, which aligns gradients across tasks as well.
    optimizer_state="keep" lets the moments of one task carry over to the next, as in the original
    code (which used Adam with beta1 = 0). `finish()` takes the mean over the tasks seen so far.

    tasks: T, the number of trajectories in one outer update.
    """

    def __init__(
        self,
        model: Model,
        optimizer: Any = None,
        *,
        tasks: int,
        inner_steps: int = 1000,
        outer_lr: float = 0.1,
        optimizer_state: OptimizerState = "reset",
        **options: Any,
    ) -> None:
        super().__init__(model, optimizer, inner_steps, outer_lr, optimizer_state, **options)
        self.tasks = whole_number("tasks", tasks)
        self.done = 0  # trajectories since the last outer update
        self._total: dict[str, torch.Tensor] = {}  # the sum of their displacements
        self._current: tuple[str, ...] = ()  # the tasks of this trajectory

    def finish(self) -> bool:
        """End the trajectory now, and update by the mean over the trajectories so far."""
        super().finish()
        if self.done > 0:
            self._apply()
        return False

    def _inner(self, losses: Losses) -> StepReport:
        self._check_task(losses)
        report = super()._inner(losses)
        if self.step == 0:
            self._current = tuple(sorted(report.tasks))
        return report

    def _check_task(self, losses: Losses) -> None:
        batches = read_losses(losses)
        if isinstance(batches, SharedBatch):
            raise TypeError(
                "`losses` is a callable that returns several losses, and MultiTaskReptile must know "
                "the task before it runs: give {task: callable that returns its loss}."
            )
        # Under DDP a process may bring some of the step's tasks only.
        if self.step > 0 and not set(batches.tasks) <= set(self._current):
            raise ValueError(
                f"Step {self.step + 1} of a trajectory on {', '.join(self._current)} was given "
                f"{', '.join(sorted(batches.tasks))}: give one task for all {self.inner_steps} steps, "
                "or use SequentialReptile."
            )

    def _end(self) -> None:
        super()._end()
        self.done += 1
        if self.done == self.tasks:
            self._apply()

    def _update(self, names: list[str], theta: list[torch.Tensor], phi: list[torch.Tensor]) -> None:
        for name, start in zip(names, phi, strict=True):
            total = self._total.get(name)
            self._total[name] = torch.zeros_like(start) if total is None else total.to(start)
        torch._foreach_sub_(theta, phi)
        torch._foreach_add_([self._total[name] for name in names], theta)
        torch._foreach_copy_(theta, phi)
        self._reset(names)

    @torch.no_grad()
    def _apply(self) -> None:
        """The outer update, from weights that are phi."""
        self._total = {n: t for n, t in self._total.items() if self.parameters[n].requires_grad}
        for name, total in self._total.items():
            theta = local(self.parameters[name].detach())
            theta.add_(total.to(theta), alpha=self.outer_lr / self.done)
            total.zero_()
        weights_moved()
        self.done = 0

    def _state(self) -> dict[str, Any]:
        return super()._state() | {
            "done": self.done,
            "total": saved(self.parameters, self._total) if self.done else {},
            "current": self._current,
        }

    def _load(self, state: dict[str, Any]) -> None:
        total = loaded(self.parameters, "total", state.get("total", {}))
        super()._load(state)
        self._total = total
        self.done = int(state["done"])
        self._current = tuple(state["current"])
