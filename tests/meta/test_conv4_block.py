"""A block of Conv-4 by hand: as the module, its gradients, and how both change along a direction."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.func import functional_call

from gradaccord.meta.network.conv4_block import Block
from gradaccord.models.trunks.conv4 import Conv4

LAYOUTS: dict[str, dict[str, Any]] = {
    "stride": {},
    "unscaled, leaky": {"scale": False, "activation": "leaky_relu"},
    "pool": {"downsample": "pool"},
    "pool before the norm": {"downsample": "pool", "order": "pool-norm-activation", "ceil": True},
}


@pytest.fixture(params=LAYOUTS)
def made(request: pytest.FixtureRequest) -> tuple[Any, ...]:
    """The module, the block, its weights, an input, and a direction of each."""
    torch.manual_seed(0)
    own = Conv4(5, 4, 16, 4, **LAYOUTS[request.param]).double().blocks[0]
    params = {n: p.detach() + 0.1 * torch.randn_like(p) for n, p in own.named_parameters()}
    x = torch.randn(3, 4, 9, 9, dtype=torch.float64)
    along = {n: torch.randn_like(p) for n, p in params.items()}
    return own, Block(own, ""), params, x, along, torch.randn_like(x)


def test_values_and_gradients_are_those_of_the_module(made: tuple[Any, ...]) -> None:
    own, block, params, x, _, _ = made
    leaves = {n: p.clone().requires_grad_() for n, p in params.items()}
    x = x.requires_grad_()
    expected = functional_call(own, leaves, (x,))
    found, tape = block.forward(params, x.detach())
    torch.testing.assert_close(found, expected.detach())
    outer = torch.randn_like(found)
    by_x, gradients, _ = block.backward(tape, outer.clone(), of_x=True)
    names = [name for name in leaves if name != block.bias]  # which the norm removes
    true = torch.autograd.grad(expected, [x, *(leaves[name] for name in names)], outer)
    for ours, theirs in zip([by_x, *(gradients[name] for name in names)], true, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_change_along_a_direction_is_the_modules(made: tuple[Any, ...]) -> None:
    own, block, params, x, v, of_x = made
    given = [tensor.clone().requires_grad_() for tensor in (x, *params.values())]
    outputs = functional_call(own, dict(zip(params, given[1:], strict=True)), (given[0],))
    # J v is the derivative of (J' u) v by u.
    u = torch.zeros_like(outputs, requires_grad=True)
    back = torch.autograd.grad(outputs, given, u, create_graph=True)
    product = sum((g * d).sum() for g, d in zip(back, (of_x, *v.values()), strict=True))
    (expected,) = torch.autograd.grad(product, u)
    _, tape = block.forward(params, x)
    found, _ = block.forward_along(tape, v, of_x)
    torch.testing.assert_close(found, expected)
