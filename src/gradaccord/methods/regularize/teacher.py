"""A teacher whose weights are the moving average of the model's, run in the model's own place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import nn

from gradaccord.core.parameters import Parameters
from gradaccord.core.sharding import is_sharded
from gradaccord.core.temporary_weights import weights_moved

Momentum: TypeAlias = float | Callable[[int], float]


class Teacher:
    """theta~ <- beta theta~ + (1 - beta) theta after every step; beta a number or a function of it.

    Costs one copy of the trained weights (in float32 at least: a half-precision average would stop
    moving) and a pass over them a step. Frozen weights and buffers are the model's own.
    """

    def __init__(self, model: nn.Module, momentum: Momentum = 0.99) -> None:
        if not callable(momentum):
            _checked(momentum)
        self.model = model
        self.momentum = momentum
        parameters = Parameters.of(model)
        if any(is_sharded(t) for t in parameters.tensors):
            raise ValueError(
                "A teacher cannot stand in for a model sharded by fully_shard: use DDP, or no "
                "`bregman` term."
            )
        self.parameters = dict(zip(parameters.names, parameters.tensors, strict=True))
        self.weights: dict[str, torch.Tensor] = {}
        self._follow()

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Move towards the model's weights after step number `step`, counted from 0."""
        self._follow()
        beta = _checked(self.momentum(step) if callable(self.momentum) else self.momentum)
        pairs = [(w, self.parameters[name].detach()) for name, w in self.weights.items()]
        if pairs:
            mine = [w for w, _ in pairs]
            torch._foreach_lerp_(mine, [p.to(w.dtype) for w, p in pairs], 1 - beta)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """A block in which the model has the teacher's weights, is in eval mode, and has no graph.

        The weights are exchanged, not copied, and unseen by autograd: graphs stay valid.
        """
        self._follow()
        training = [m for m in self.model.modules() if m.training]
        own = {name: self.parameters[name].data for name in self.weights}
        try:
            for module in training:
                module.training = False
            for name, weight in self.weights.items():
                self.parameters[name].data = weight.to(own[name].dtype)
            weights_moved()
            with torch.no_grad():
                yield
        finally:
            for name, data in own.items():
                self.parameters[name].data = data
            weights_moved()
            for module in training:
                module.training = True

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The teacher's weights by the names of the model's."""
        return {name: weight.clone() for name, weight in self.weights.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the teacher's saved weights."""
        for name, saved in state.items():
            if name not in self.parameters or self.parameters[name].shape != saved.shape:
                raise ValueError(
                    f"The saved teacher has a weight {name!r} of shape {tuple(saved.shape)}, which the "
                    "model does not have: load it into the model it was saved with."
                )
        self.weights = {n: saved.detach().clone() for n, saved in state.items()}
        self._follow()

    @torch.no_grad()
    def _follow(self) -> None:
        """Move to the model's devices, and take in parameters that are trained since."""
        for name, p in self.parameters.items():
            if name in self.weights:
                self.weights[name] = self.weights[name].to(p.device)
            elif p.requires_grad:
                wide = torch.promote_types(p.dtype, torch.float32)
                self.weights[name] = p.detach().clone().to(wide)


def paper_momentum(total_steps: int) -> Callable[[int], float]:
    """0.99 in the first tenth of training and 0.999 afterwards (Jiang et al. 2020)."""
    return lambda step: 0.99 if step < total_steps / 10 else 0.999


def _checked(beta: float) -> float:
    if not 0 <= beta <= 1:
        raise ValueError(f"`momentum` is {beta}: it must be in [0, 1].")
    return float(beta)
