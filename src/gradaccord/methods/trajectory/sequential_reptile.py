"""Sequential Reptile: one trajectory through all tasks, then a move part of the way to its end."""

from __future__ import annotations

from typing import Any

from gradaccord.core.parameters import Model
from gradaccord.methods.trajectory.reptile import Reptile
from gradaccord.methods.trajectory.trajectory import OptimizerState


class SequentialReptile(Reptile):
    """Sequential Reptile (Lee et al. 2022, "Sequential Reptile: Inter-Task Gradient Alignment").

        theta = phi
        K times:  t ~ p,  theta <- Opt(theta, grad L_t(theta))
        phi <- phi + eta (theta - phi)

    Give `backward` one task a step, drawn by `gradaccord.data.samplers.ProportionalTasks` (p_t ~
    N_t^q), and the tasks' gradients are implicitly aligned; several tasks in a step are summed. Cost:
    one batch gradient a step and one copy of the weights. Phi has gone 1 - (1 - eta)^n of the way after
    n outer updates: plan at least 20 of them. The defaults are the paper's. Differs from
    `MultiTaskReptile`, whose trajectories see one task each and are not aligned across tasks; from
    `Reptile` by the defaults alone.

    With outer_lr=1 it is plain sequential training, bit for bit (nothing is interpolated and no
    state is reset): the control that a comparison with multi-task training needs.
    """

    def __init__(
        self,
        model: Model,
        optimizer: Any = None,
        *,
        inner_steps: int = 1000,
        outer_lr: float = 0.1,
        optimizer_state: OptimizerState = "reset",
        **options: Any,
    ) -> None:
        super().__init__(
            model,
            optimizer,
            inner_steps=inner_steps,
            outer_lr=outer_lr,
            optimizer_state=optimizer_state,
            **options,
        )
