"""ConFIG: the direction that has the same cosine with every task's gradient."""

from __future__ import annotations

import torch

from gradaccord.methods.combine.combination import Combination, Measured

# Squares smaller than this share of the largest are rounding: such gradients are linearly dependent.
ROUNDING = 1e-10


class ConFIG(Combination):
    """Conflict-free inverse gradients (Liu Q. et al. 2024, "ConFIG").

        d = U^+ 1,   g = (sum_t g_t.d) d / |d|^2           U: the rows g_t / |g_t|, U^+ its inverse

    d has the same positive dot product with every unit gradient, so that no task conflicts with the
    step, and g is the sum of the gradients' projections on it. It follows from the Gram matrix exactly:
    U^+ = U' (U U')^+. For linearly dependent gradients d is the least-squares solution. A task without
    a gradient takes no part. Cost: T batch gradients, T gradients of memory. Differs from `PCGrad` by
    giving all tasks the same cosine, whatever their lengths.
    """

    keeps_a_lone_task = True

    def weigh(self, measured: Measured) -> torch.Tensor:
        if len(measured.tasks) == 1:
            return torch.ones(measured.grams.shape[:2], dtype=torch.float64, device="cpu")
        preferences = torch.ones(len(measured.tasks), dtype=torch.float64, device="cpu")
        return torch.stack([config_weights(gram, preferences) for gram in measured.grams])


def config_weights(gram: torch.Tensor, preferences: torch.Tensor) -> torch.Tensor:
    """ConFIG in coefficients: gram [T, T], preferences [T] instead of ones -> weights [T].

    d = sum_t c_t g_t with c_t = ((U U')^+ p)_t / |g_t|
    """
    lengths = gram.diagonal().clamp_min(0).sqrt()
    inverse = torch.where(lengths > 0, 1 / lengths, 0.0)
    cosines = gram * inverse[:, None] * inverse[None, :]
    pseudo_inverse = torch.linalg.pinv(cosines, rtol=ROUNDING, hermitian=True)
    c = inverse * (pseudo_inverse @ preferences.to(gram))
    square = c @ gram @ c
    return c * (gram @ c).sum() / square if square > 0 else torch.zeros_like(c)
