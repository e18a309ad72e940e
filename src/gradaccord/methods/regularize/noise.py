"""The noise of SMART: where it starts, how it ascends, and the ball it stays in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn.functional import cosine_similarity

from gradaccord.core.checks import one_of

RELATIVE = 0.05  # epsilon over the mean |embedding|
STEP = 100.0  # eta over epsilon, as in the paper (1e-3 to 1e-5): most coordinates reach the ball's side
START = 0.1  # sigma over epsilon: where the divergence has a slope that is not rounded away, as in bf16
PUBLIC_NOISE, PUBLIC_STEP, PUBLIC_GUARD = 1e-5, 1e-3, 1e-6


Norm = Literal["inf", "l2"]
Variant = Literal["paper", "public"]


@dataclass(frozen=True)
class Ball:
    """What may be added to an embedding [batch, ...]; `real`, if given, is false at padding.

    The arguments are those of `SMART`. A sentence is one entry of the batch.
    """

    epsilon: float | Literal["relative"]
    norm: Norm
    variant: Variant

    def __post_init__(self) -> None:
        if self.epsilon != "relative" and not (
            isinstance(self.epsilon, int | float) and 0 < self.epsilon < float("inf")
        ):
            raise ValueError(f"`epsilon` is {self.epsilon!r}: use 'relative' or a finite number > 0.")
        one_of("norm", self.norm, Norm)
        one_of("variant", self.variant, Variant)

    def radius(self, x: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        """Epsilon, in float32 at least."""
        dtype = torch.promote_types(x.dtype, torch.float32)
        if not isinstance(self.epsilon, str):
            return torch.tensor(self.epsilon, dtype=dtype, device=x.device)
        size = x.abs().to(dtype)
        entries = _entries(size, real).sum().clamp_min(1)
        return RELATIVE * masked(size, real).sum() / entries

    def start(self, x: torch.Tensor, real: torch.Tensor | None, radius: torch.Tensor) -> torch.Tensor:
        """Gaussian noise from the global generator."""
        sigma = PUBLIC_NOISE if self.variant == "public" else START * radius
        return masked(torch.randn(x.shape, dtype=radius.dtype, device=x.device) * sigma, real)

    def ascended(
        self,
        noise: torch.Tensor,
        gradient: torch.Tensor,
        radius: torch.Tensor,
        real: torch.Tensor | None,
    ) -> torch.Tensor:
        """One step along the gradient of the divergence, back into the ball."""
        gradient = masked(gradient, real)
        if self.variant == "public":
            noise = noise + PUBLIC_STEP * gradient
            return noise / (noise.abs().amax(-1, keepdim=True) + PUBLIC_GUARD)
        tiny = torch.finfo(gradient.dtype).tiny
        direction = gradient / _largest(gradient).clamp_min(tiny)
        if self.norm == "inf":
            return (noise + STEP * radius * direction).clamp(-radius, radius)
        length = radius * _entries(noise, real).sqrt()
        noise = noise + STEP * length * direction / _length(direction).clamp_min(tiny)
        return noise * (length / _length(noise).clamp_min(tiny)).clamp(max=1.0)

    def random_like(self, noise: torch.Tensor) -> torch.Tensor:
        """Random noise as large as `noise`, in the norm of the ball, and zero where that is padding.

        inf: random signs of the same largest coordinate per sentence; l2: a Gaussian of the same
        length per sentence; for the public variant, of the same largest coordinate per token.
        """
        drawn = torch.randn_like(noise) * (noise != 0).any(-1, keepdim=True)
        tiny = torch.finfo(noise.dtype).tiny
        if self.variant == "public":
            largest = [t.abs().amax(-1, keepdim=True) for t in (noise, drawn)]
            return drawn * largest[0] / largest[1].clamp_min(tiny)
        if self.norm == "inf":
            return drawn.sign() * _largest(noise)
        return drawn * _length(noise) / _length(drawn).clamp_min(tiny)


def masked(noise: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
    """Zero at padding."""
    return noise if real is None else noise.masked_fill(~real, 0.0)


def cosine(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> torch.Tensor:
    """The cosine of two noises at a position, averaged by how much of the second's energy is there."""
    values, energies = [], []
    for a, b in zip(first, second, strict=True):
        values.append(cosine_similarity(a, b, -1, 1e-30).flatten())
        energies.append(b.square().sum(-1).flatten())
    energy = torch.cat(energies)
    return (torch.cat(values) * energy).sum() / energy.sum()


def _sentence(values: torch.Tensor) -> tuple[int, ...]:
    return tuple(range(1, values.ndim)) or (0,)


def _largest(values: torch.Tensor) -> torch.Tensor:
    return values.abs().amax(_sentence(values), keepdim=True)


def _length(values: torch.Tensor) -> torch.Tensor:
    return values.square().sum(_sentence(values), keepdim=True).sqrt()


def _entries(values: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
    """How many coordinates of each sentence are not padding."""
    return masked(torch.ones_like(values), real).sum(_sentence(values), keepdim=True)
