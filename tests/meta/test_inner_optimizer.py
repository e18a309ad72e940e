"""The inner optimiser equals torch's own, whatever the memory layout."""

from __future__ import annotations

import pytest
import torch
from few_shot_toys import Net
from torch.nn import functional as F

from gradaccord.meta.learners.inner_optimizer import Moments, zeros
from gradaccord.meta.network.functional import FunctionalModel


@pytest.mark.parametrize("kind", ["adam", "sgd"])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("of_weights", [torch.contiguous_format, torch.channels_last])
def test_steps_equal_those_of_torch(
    kind: str, layout: torch.memory_format, of_weights: torch.memory_format
) -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = ((4, 3, 2, 2), (5,))

    def draw() -> list[torch.Tensor]:
        return [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]

    weights = draw()
    theirs = [weight.clone() for weight in weights]
    weights = [w.to(memory_format=of_weights) if w.ndim == 4 else w for w in weights]
    optimizer = (
        torch.optim.Adam(theirs, lr=0.05, betas=(0.0, 0.99))
        if kind == "adam"
        else torch.optim.SGD(theirs, lr=0.05)
    )
    ours = Moments(kind, 0.05, 0.99, [torch.zeros_like(w) for w in weights], 0)
    for _ in range(4):
        gradient = draw()
        for weight, own in zip(theirs, gradient, strict=True):
            weight.grad = own.clone()
        optimizer.step()
        ours.step_(weights, [g.to(memory_format=layout) if g.ndim == 4 else g for g in gradient])
    torch.testing.assert_close(weights, theirs, rtol=1e-12, atol=1e-12)
    assert ours.count == (4 if kind == "adam" else 0)


def test_squares_start_at_zero_for_the_weights_that_move() -> None:
    model = Net()
    found = zeros(FunctionalModel(model, F.cross_entropy, fast=False), ["conv.weight", "head.bias"])
    assert [t.shape for t in found] == [model.conv.weight.shape, model.head.bias.shape]
    assert not any(t.any() or t.requires_grad for t in found)


@pytest.mark.parametrize("of", ["a diagonal", "one number for all"])
def test_gradients_of_vectors_may_have_any_strides(of: str) -> None:
    """The fused step reads memory as it lies; autograd gives a diagonal, or one number expanded."""
    matrix = torch.arange(16.0, dtype=torch.float64).reshape(4, 4) + 1
    gradient = matrix.diagonal() if of == "a diagonal" else matrix[2, 2].expand(4)
    weights = [torch.ones(4, dtype=torch.float64)]
    theirs = weights[0].clone()
    theirs.grad = gradient.clone()
    torch.optim.Adam([theirs], lr=0.05, betas=(0.0, 0.99)).step()
    Moments("adam", 0.05, 0.99, [torch.zeros_like(theirs)], 0).step_(weights, [gradient])
    torch.testing.assert_close(weights[0], theirs, rtol=1e-12, atol=1e-12)
