"""A convolution as a product with patches equals torch's own, with its gradient by the kernel."""

from __future__ import annotations

import pytest
import torch

from gradaccord.meta.network.conv4_patches import FEW, MOST, by_kernel, convolved, gathered


def last(images: torch.Tensor) -> torch.Tensor:
    return images.contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [(3, 3), (4, 3), (1, 4)])
def test_equals_the_convolution_and_its_gradient(stride: int, size: tuple[int, int]) -> None:
    torch.manual_seed(0)
    x = last(torch.randn(4, 3, *size, dtype=torch.float64))
    kernel = last(torch.randn(5, 3, 3, 3, dtype=torch.float64)).requires_grad_()
    true = torch.conv2d(x, kernel, None, stride, 1)
    grad = torch.randn_like(true)
    (true_gradient,) = torch.autograd.grad(true, kernel, grad)
    patches = gathered(x, kernel, stride)
    assert patches is not None
    found = convolved(patches, x, kernel.detach(), stride)
    torch.testing.assert_close(found, true.detach(), rtol=1e-12, atol=1e-12)
    found = by_kernel(patches, grad)
    torch.testing.assert_close(found, true_gradient, rtol=1e-12, atol=1e-12)
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_is_left_to_torch_where_that_is_faster() -> None:
    kernel = torch.zeros(4, 2, 3, 3)
    assert gathered(last(torch.zeros(FEW, 2, 1, 1)), kernel, 1) is not None
    many = last(torch.zeros(FEW + 1, 2, 1, 1))
    assert gathered(many, kernel, 1) is None
    assert gathered(many.bfloat16(), kernel.bfloat16(), 1) is not None
    assert gathered(last(torch.zeros(MOST // 18 + 1, 2, 1, 1)).bfloat16(), kernel, 1) is None
    assert gathered(last(torch.zeros(2, 4, 1, 1)), kernel, 1) is None  # two tasks side by side
