"""The inner optimiser of Reptile and DotProd: Adam with beta1 = 0, or plain SGD, in place."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gradaccord.meta.network.functional import FunctionalModel

EPSILON = 1e-8


class Moments:
    """Adam with beta1 = 0 (or plain SGD), in place, as `torch.optim.Adam` computes it."""

    def __init__(self, kind: str, lr: float, beta2: float, squares: list[torch.Tensor], count: int):
        self.kind, self.lr, self.beta2 = kind, lr, beta2
        self.squares = squares
        self.count = count
        self._step = torch.zeros((), device=squares[0].device) if squares else torch.zeros(())

    def step_(self, weights: list[torch.Tensor], gradient: list[torch.Tensor]) -> None:
        """One step of the weights."""
        if self.kind == "sgd":
            torch._foreach_add_(weights, gradient, alpha=-self.lr)
            return
        self.count += 1
        gradient, self.squares = _alike(gradient, weights), _alike(self.squares, weights)
        direction = _as_stored(gradient)
        # With beta1 = 0 the first moment is the gradient, so that one tensor may stand for both.
        torch._fused_adam_(
            _as_stored(weights),
            direction,
            direction,
            _as_stored(self.squares),
            [],
            [self._step.fill_(self.count)] * len(weights),
            lr=self.lr,
            beta1=0.0,
            beta2=self.beta2,
            weight_decay=0.0,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )


def zeros(model: FunctionalModel, names: Sequence[str]) -> list[torch.Tensor]:
    """Squares to start from, for the weights of these names."""
    params = model.parameters()
    return [torch.zeros_like(params[name], requires_grad=False) for name in names]


def _as_stored(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Kernels in the order of their memory: the fused step would copy gradients in channels-last."""
    last = torch.channels_last
    return [
        t.permute(0, 2, 3, 1) if t.dim() == 4 and t.is_contiguous(memory_format=last) else t
        for t in tensors
    ]


def _alike(tensors: list[torch.Tensor], like: list[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors in the memory layout of others, which the fused step expects without a check."""
    return [
        t if t.stride() == other.stride() else torch.empty_like(other).copy_(t)
        for t, other in zip(tensors, like, strict=True)
    ]
