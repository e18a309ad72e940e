"""First-order MAML on a single task: only the last of k gradients counts."""

from __future__ import annotations

from typing import Any

import torch

from gradaccord.core.parameters import Model
from gradaccord.methods.trajectory.outer_weights import copied
from gradaccord.methods.trajectory.trajectory import OptimizerState, Trajectory


class FOMAML(Trajectory):
    """First-order MAML (Finn et al. 2017; single task, k = 4, as a baseline in Kedia et al. 2021).

        theta_0 = phi
        for j = 1 ... k:  theta_j = Opt(theta_{j-1}, grad L(theta_{j-1}; b_j))
        phi <- phi + eta (theta_k - theta_{k-1})

    The optimiser's last displacement is added to phi, as openai/supervised-reptile does; with SGD that
    is phi - eta lr grad L(theta_{k-1}; b_k), the gradient at the end of the trajectory applied at its
    start. Cost: k batch gradients an update, of which one counts, and two copies of the weights.
    Differs from `Reptile`, which counts all k displacements; k = 1 with outer_lr=1 is plain training.
    `finish()` before the last step returns to phi: no displacement that counts has been made yet.
    """

    def __init__(
        self,
        model: Model,
        optimizer: Any = None,
        *,
        inner_steps: int = 4,
        outer_lr: float = 1.0,
        optimizer_state: OptimizerState = "keep",
        **options: Any,
    ) -> None:
        super().__init__(model, optimizer, inner_steps, outer_lr, optimizer_state, **options)
        self._before_last: dict[str, torch.Tensor] = {}  # theta_{k-1}, while the last step is taken

    def _begin(self) -> None:
        super()._begin()
        if 0 < self.step == self.inner_steps - 1:
            self._before_last = {
                name: copied(self.parameters[name], self._before_last.get(name)) for name in self._phi
            }

    def _update(self, names: list[str], theta: list[torch.Tensor], phi: list[torch.Tensor]) -> None:
        if self.step < self.inner_steps:
            torch._foreach_copy_(theta, phi)
        elif self.inner_steps > 1:
            torch._foreach_sub_(theta, [self._before_last[name] for name in names])
            torch._foreach_add_(phi, theta, alpha=self.outer_lr)
            torch._foreach_copy_(theta, phi)
        elif self.outer_lr < 1:
            torch._foreach_lerp_(theta, phi, 1 - self.outer_lr)
        self._reset(names)
