"""Methods that need many runs or millions of steps on the plane, vectorised: all runs at once.

This is for speed: all methods together take ten seconds here. A step of a method class takes 1.4 ms
(PCGrad) to 1.7 ms (GradVac); 32 seeds, three starts and seven rates are 400,000 such steps, ten
minutes a method, and DotProd's runs take six. The Reptiles could run all points in one model, as `mtl`
does, at 0.5 ms an inner step: 50 s for their 100,000. Runs are rows of one tensor. PCGrad and GradVac
call the library's own functions; DotProd and the two Reptiles are written out here. Tests compare each
with its class, on the same random numbers.

Every method is an endless iterator over the points after each update, [rates, starts, seeds, 2]. A
seed gives the same draws at every rate and from every start.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import torch

from gradaccord.core.options import options_of
from gradaccord.methods.align.dotprod import DotProd
from gradaccord.methods.combine.combination import projection_order
from gradaccord.methods.combine.gradvac import GradVac, gradvac_weights
from gradaccord.methods.combine.pcgrad import pcgrad_weights
from gradaccord.showcase.landscape.plane import OPTIMA, TASKS, gradient, gradients, hessian_product
from gradaccord.showcase.landscape.unbatched import Iterates

BETA = options_of(GradVac)["beta"].default
WEIGHT, MAX_RATIO = (options_of(DotProd)[name].default for name in ("weight", "max_ratio"))

Weigh = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def generators(seeds: int) -> list[torch.Generator]:
    """One for each seed, so that a seed's draws do not depend on the number of seeds."""
    return [torch.Generator().manual_seed(seed) for seed in range(seeds)]


def draw(seeds: list[torch.Generator], below: int, number: int) -> torch.Tensor:
    """Random integers below a bound for every seed: [number, seeds]."""
    return torch.stack(
        [torch.randint(below, (number,), generator=g, device="cpu") for g in seeds], dim=-1
    )


def pcgrad(starts: torch.Tensor, seeds: int, lrs: torch.Tensor) -> Iterates:
    """PCGrad with the random orders that `PCGrad(model, seed=s)` draws."""
    return _combined(
        starts, seeds, lrs, lambda gram, state, order: (pcgrad_weights(gram, order), state)
    )


def gradvac(starts: torch.Tensor, seeds: int, lrs: torch.Tensor, beta: float = BETA) -> Iterates:
    """GradVac with the random orders that `GradVac(model, seed=s)` draws."""
    return _combined(
        starts, seeds, lrs, lambda gram, targets, order: gradvac_weights(gram, targets, order, beta)
    )


def _combined(starts: torch.Tensor, seeds: int, lrs: torch.Tensor, weigh: Weigh) -> Iterates:
    phi, rate = _begin(starts, seeds, lrs)
    state = torch.zeros(*phi.shape[:-1], len(TASKS), len(TASKS), dtype=phi.dtype, device=phi.device)
    random = generators(seeds)
    while True:
        g = gradients(phi)
        gram = g @ g.mT
        weights = torch.empty_like(gram[..., 0])
        orders = torch.stack([projection_order(len(TASKS), generator) for generator in random])
        distinct: torch.Tensor = torch.unique(orders, dim=0)  # of three tasks there are eight
        for order in distinct:
            who = (orders == order).all((1, 2))
            weights[:, :, who], state[:, :, who] = weigh(gram[:, :, who], state[:, :, who], order)
        phi = phi - rate * (weights[..., None] * g).sum(-2)
        yield phi


def dotprod(
    starts: torch.Tensor,
    seeds: int,
    lrs: torch.Tensor,
    weight: float = WEIGHT,
    max_ratio: float = MAX_RATIO,
) -> Iterates:
    """DotProd on pairs of different tasks, drawn for every step; weight=0 is the paired sum."""
    phi, rate = _begin(starts, seeds, lrs)
    random = generators(seeds)
    for first, second in (pair for _ in count() for pair in zip(*draw_pairs(random, 100), strict=True)):
        phi = phi - rate * dotprod_gradient(phi, OPTIMA[first], OPTIMA[second], weight, max_ratio)
        yield phi


def draw_pairs(random: list[torch.Generator], number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pairs of different tasks in random order: the first and the second ones, each [number, seeds]."""
    first = draw(random, len(TASKS), number)
    second = (first + 1 + draw(random, len(TASKS) - 1, number)) % len(TASKS)
    return first, second


def dotprod_gradient(
    phi: torch.Tensor, first: torch.Tensor, second: torch.Tensor, weight: float, max_ratio: float
) -> torch.Tensor:
    """G1 + G2 - weight H2 G1, the last no longer than max_ratio |G1 + G2|: all [..., 2]."""
    one, two = gradient(phi, first), gradient(phi, second)
    total = one + two
    term = -weight * hessian_product(phi, second, one)
    length = torch.linalg.vector_norm(term, dim=-1, keepdim=True)
    most = max_ratio * torch.linalg.vector_norm(total, dim=-1, keepdim=True)
    return total + term * torch.where(length > most, most / length, 1.0)


def reptile(
    starts: torch.Tensor, lrs: torch.Tensor, inner_steps: int = 100, outer_lr: float = 0.1
) -> Iterates:
    """Multi-task Reptile. It is deterministic: one run stands for all seeds."""
    phi, rate = _begin(starts, 1, lrs)
    while True:
        theta = phi.expand(-1, -1, len(TASKS), -1)
        for _ in range(inner_steps):
            theta = theta - rate * gradient(theta, OPTIMA)
        phi = phi + outer_lr * (theta - phi).mean(2, keepdim=True)
        yield phi


def sequential_reptile(
    starts: torch.Tensor,
    seeds: int,
    lrs: torch.Tensor,
    inner_steps: int = 100,
    outer_lr: float = 0.1,
) -> Iterates:
    """Sequential Reptile; outer_lr=1 is plain sequential training, its control."""
    phi, rate = _begin(starts, seeds, lrs)
    random = generators(seeds)
    while True:
        theta = phi
        for optima in OPTIMA[draw(random, len(TASKS), inner_steps)]:
            theta = theta - rate * gradient(theta, optima)
        phi = theta if outer_lr == 1 else torch.lerp(theta, phi, 1 - outer_lr)
        yield phi


def _begin(starts: torch.Tensor, seeds: int, lrs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The points to start from, and the rates in the same dimensions."""
    phi = starts[None, :, None].repeat(len(lrs), 1, seeds, 1)
    return phi, lrs[:, None, None, None]
