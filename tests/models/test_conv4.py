"""Conv-4 in the layouts of the published code bases."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.func import functional_call

from gradaccord.models.trunks.conv4 import Conv4

# ways 5: parameters as counted by hand from the layouts of each code base
PUBLISHED = {
    "maml_omniglot": (Conv4.maml_omniglot, (1, 28), 640 + 3 * 36928 + 4 * 64 + 64 * 5 + 5),
    "maml_imagenet": (Conv4.maml_imagenet, (3, 84), 896 + 3 * 9248 + 4 * 32 + 800 * 5 + 5),
    "reptile_omniglot": (Conv4.reptile_omniglot, (1, 28), 640 + 3 * 36928 + 8 * 64 + 256 * 5 + 5),
    "reptile_imagenet": (Conv4.reptile_imagenet, (3, 84), 896 + 3 * 9248 + 8 * 32 + 1152 * 5 + 5),
    "mamlpp": (Conv4.mamlpp, (1, 28), 640 + 3 * 36928 + 8 * 64 + 64 * 5 + 5),
    "gradient_sharing": (Conv4.gradient_sharing, (3, 84), 1344 + 3 * 20784 + 8 * 48 + 1200 * 5 + 5),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_layouts_have_the_published_sizes(name: str) -> None:
    make, (channels, size), parameters = PUBLISHED[name]
    model = make(5)
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert model(torch.rand(6, channels, size, size)).shape == (6, 5)


def test_evaluation_uses_the_batch_and_leaves_no_trace() -> None:
    torch.manual_seed(0)
    model = Conv4(5, filters=8)
    images = torch.rand(7, 1, 28, 28)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    trained = model.train()(images)
    assert torch.equal(trained, model.eval()(images))
    assert not list(model.buffers())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not torch.allclose(trained[:3], model(images[:3]))  # other companions, other statistics


def test_pooling_before_the_activation_changes_no_value() -> None:
    images = torch.rand(4, 3, 32, 32)
    for activation in ("relu", "leaky_relu"):
        options: dict[str, Any] = {"downsample": "pool", "activation": activation}
        first = Conv4(5, 3, 32, 8, order="norm-activation-pool", **options)
        second = Conv4(5, 3, 32, 8, order="norm-pool-activation", **options)
        assert torch.equal(
            first(images), functional_call(second, dict(first.named_parameters()), images)
        )


def test_batch_norm_without_a_weight_can_be_differentiated_twice() -> None:
    model = Conv4(5, filters=4, scale=False).double()
    weights = tuple(model.parameters())
    loss = model(torch.rand(6, 1, 28, 28, dtype=torch.float64)).square().mean()
    gradients = torch.autograd.grad(loss, weights, create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in gradients), weights)
    assert all(g.isfinite().all() for g in second)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_bias_that_batch_norm_removes_has_no_gradient(name: str) -> None:
    make, (channels, size), _ = PUBLISHED[name]
    model = make(5)
    images = torch.rand(4, channels, size, size)
    before = model(images)
    before.square().sum().backward()
    for block in model.blocks:
        assert block.conv.bias.grad.count_nonzero() == 0
        torch.nn.init.normal_(block.conv.bias)
    assert torch.equal(before, model(images))


def test_adapts_to_a_task() -> None:
    torch.manual_seed(0)
    model = Conv4(5, filters=16)
    images, labels = torch.rand(25, 1, 28, 28), torch.arange(5).repeat(5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ways": 0}, "`ways` is 0: it must be a whole number >= 1"),
        ({"ways": 5, "downsample": "mean"}, "`downsample` is 'mean': use 'stride' or 'pool'"),
        ({"ways": 5, "size": 12, "downsample": "pool"}, "`size` is 12, too small"),
        ({"ways": 5, "order": "relu"}, "`order` is 'relu': use 'norm"),
    ],
)
def test_says_what_is_wrong(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Conv4(**options)
