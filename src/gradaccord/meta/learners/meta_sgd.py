"""Meta-SGD: MAML that also learns the inner rate of every single weight."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gradaccord.meta.learners.maml import MAML
from gradaccord.meta.learners.named_tensors import NamedTensors


class MetaSGD(MAML):
    """Meta-SGD (Li et al. 2017): a learned rate for each weight, so that direction is learned too.

        theta_k = theta_{k-1} - alpha * grad L_support(theta_{k-1})        (alpha: a tensor like theta)
        g = d mean_t L_query(theta_K) / d (phi, alpha)

    Rates may become negative. Cost as `MAML`, with twice the parameters to learn; first order keeps the
    K inner gradients, from which the rates' gradient is made. `learner.rates` holds alpha.

    inner_lr: where all rates start. Others as in `MAML`.
    """

    def __init__(self, model: nn.Module, *, inner_lr: float = 0.1, **options: Any) -> None:
        super().__init__(model, inner_lr=inner_lr, **options)
        self.differentiates_twice = True  # the rates' gradient runs through the inner steps
        params = self.functional.parameters()
        self.rates = NamedTensors()
        for name in self.adapted:
            rate = torch.full_like(params[name], self.inner_lr, requires_grad=False)
            self.rates.add(name, nn.Parameter(rate))

    def rates_at(self, step: int) -> list[torch.Tensor]:
        """See `MAML`."""
        return [self.rates[name] for name in self.adapted]
