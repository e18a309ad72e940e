"""FOMAML: MAML without second derivatives."""

from __future__ import annotations

from typing import Any

from torch import nn

from gradaccord.meta.learners.maml import MAML


class FOMAML(MAML):
    """First-order MAML (Finn et al. 2017): the query gradient at the adapted weights, applied at phi.

        g = mean over tasks of  grad L_query(theta_K)

    Steps in place and keeps no graph: T (K + 1) batch gradients, one copy of the weights (as
    many as small tasks share a pass). Differs from `gradaccord.FOMAML`, which follows one task through
    an optimiser's steps.
    """

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__(model, first_order=True, **options)
