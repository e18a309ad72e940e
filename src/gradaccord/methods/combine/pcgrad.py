"""PCGrad: project each task's gradient off those it conflicts with."""

from __future__ import annotations

import torch

from gradaccord.methods.combine.combination import Combination, Measured, projection_order


class PCGrad(Combination):
    """Gradient surgery (Yu et al. 2020, "Gradient Surgery for Multi-Task Learning").

        for each i, over j != i in random order:  if g_i'.g_j < 0:  g_i' -= (g_i'.g_j / |g_j|^2) g_j
        g = sum_i g_i'

    g_j is always the original gradient. Cost: T batch gradients, T gradients of memory. Use it where
    tasks conflict and no task should be hurt by another; differs from `GradVac`, which also acts
    on gradients that agree less than they usually do.
    """

    keeps_a_lone_task = True

    def weigh(self, measured: Measured) -> torch.Tensor:
        order = projection_order(len(measured.tasks), self.generator)
        return pcgrad_weights(measured.grams, order)


def pcgrad_weights(gram: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """PCGrad in coefficients: gram [..., T, T], order [T, T - 1] -> weights [..., T].

    order[i] lists the tasks that gradient i is projected against, in turn. All i advance together.
    """
    tasks = torch.arange(gram.shape[-1], device=gram.device)
    # g_i' = sum_k coefficients[..., i, k] g_k
    coefficients = torch.eye(len(tasks), dtype=gram.dtype, device=gram.device)
    coefficients = coefficients.expand(gram.shape).clone()
    for j in order.T:
        dot = (coefficients * gram[..., j, :]).sum(-1)
        square = gram[..., j, j]
        conflict = (dot < 0) & (square > 0)
        coefficients[..., tasks, j] -= torch.where(conflict, dot / square, 0.0)
    return coefficients.sum(-2)
