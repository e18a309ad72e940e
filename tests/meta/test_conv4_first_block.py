"""The first block of Conv-4: from the moments of its images' patches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.func import functional_call
from torch.nn.functional import unfold

from gradaccord.meta.network.conv4 import fast_network
from gradaccord.meta.network.conv4_first_block import FirstBlock, Patches
from gradaccord.models.trunks.conv4 import Conv4


def test_small_variance_beside_a_large_mean_survives_float32() -> None:
    """Moments of patches in float32 would lose the variance that a difference filter sees."""
    torch.manual_seed(0)
    model = Conv4(5, 1, 28, 8, downsample="pool")
    with torch.no_grad():
        kernel = model.blocks[0].conv.weight
        kernel -= kernel.mean((2, 3), keepdim=True)
    images = 0.9 + 0.01 * torch.rand(10, 1, 28, 28)
    params = dict(model.named_parameters())
    fast = fast_network(model)
    assert fast is not None
    wide = {name: parameter.double() for name, parameter in params.items()}
    true = functional_call(model, wide, (images.double(),))
    slow = model(images)
    error, usual = ((out.double() - true).norm().item() for out in (fast(params, images), slow))
    assert error <= max(5 * usual, 1e-4 * true.norm().item())


@pytest.mark.parametrize("pools", [False, True])
@pytest.mark.parametrize("size", [6, 7])
def test_moments_are_those_of_all_patches_that_the_convolution_sees(pools: bool, size: int) -> None:
    """Also of an odd border, whose outputs the pooling leaves out and the norm does not."""
    images = torch.rand(3, 2, size, size, dtype=torch.float64)
    (found,) = Patches.of(images, pools)
    seen = unfold(images, 3, padding=1, stride=1 if pools else 2).transpose(0, 1).flatten(1)
    torch.testing.assert_close(found.covariance, torch.cov(seen, correction=0))
    first = unfold(images[:, :, : size - size % 2 if pools else size], 3, padding=1, stride=2)
    less = first[0, :, 0] - seen.mean(1)
    torch.testing.assert_close(found.parts[0][:, 0], torch.cat([less, torch.ones(1).double()]))


@pytest.mark.parametrize("options", [{}, {"downsample": "pool"}, {"scale": False}])
@pytest.mark.parametrize("size", [8, 9])
def test_the_block_is_the_module(options: dict[str, Any], size: int) -> None:
    torch.manual_seed(0)
    own = Conv4(5, 2, 16, 4, **options).double().blocks[0]
    leaves = dict(own.named_parameters(prefix="0"))
    params = {name: parameter.detach() for name, parameter in leaves.items()}
    images = torch.rand(3, 2, size, size, dtype=torch.float64)
    block = FirstBlock(own, "0.")
    assert block.takes_patches
    found, tape = block.first(params, *Patches.of(images, block.pools))
    expected = own(images)
    torch.testing.assert_close(found, expected.detach())
    outer = torch.rand_like(expected)
    names = [name for name in params if name != block.bias]  # which the norm removes
    true = torch.autograd.grad(expected, [leaves[name] for name in names], outer)
    gradients, _ = block.first_backward(tape, outer.clone())
    for name, gradient in zip(names, true, strict=True):
        torch.testing.assert_close(gradients[name], gradient)


@pytest.mark.parametrize("pools", [False, True])
def test_batches_at_once_are_those_one_by_one(pools: bool) -> None:
    images = torch.rand(6, 2, 7, 7, dtype=torch.float64)
    together = Patches.of(images, pools, batches=3)
    for found, own in zip(together, images.split(2), strict=True):
        (alone,) = Patches.of(own, pools)
        assert found.size == alone.size
        torch.testing.assert_close(found.covariance, alone.covariance)
        torch.testing.assert_close(found.parts, alone.parts)
