"""The fast path of Conv-4: the same values and derivatives as the module, in half the time."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping

import torch
from torch import nn
from torch.nn.functional import leaky_relu, linear, max_pool2d, relu

from gradaccord.meta.closed_form import BatchNorm, Convolution
from gradaccord.meta.first_layer import Patches, first_block
from gradaccord.models.conv4 import Conv4, ConvBlock

Parameters = Mapping[str, torch.Tensor]
Network = Callable[[Parameters, torch.Tensor], torch.Tensor]


def fast_network(model: nn.Module) -> Network | None:
    """A function (parameters by name, images) -> logits that equals the model, or None.

    It knows `Conv4` in all its layouts. Any mapping with the model's parameter names will do, so that
    each inner step may bring its own weights. May be differentiated twice.
    """
    if type(model) is not Conv4:
        return None
    return FastConv4(model)


class FastConv4:
    """Conv-4 as a function of its parameters."""

    def __init__(self, model: Conv4) -> None:
        self.blocks = [_FastBlock(block, f"blocks.{i}.") for i, block in enumerate(model.blocks)]
        self.mean = model.head_sees == "mean"
        self.takes_patches = self.blocks[0].takes_patches
        self._kept: dict[int, tuple[weakref.ref[torch.Tensor], int, Patches]] = {}

    def __call__(self, parameters: Parameters, images: torch.Tensor) -> torch.Tensor:
        """The logits [N, ways]."""
        if self.takes_patches and not images.requires_grad:
            hidden = self.blocks[0].first(parameters, self.patches(images))
            rest = self.blocks[1:]
        else:
            hidden = images.contiguous(memory_format=torch.channels_last)
            rest = self.blocks
        for block in rest:
            hidden = block(parameters, hidden)
        seen = hidden.mean((2, 3)) if self.mean else hidden.flatten(1)
        return linear(seen, parameters["head.weight"], parameters["head.bias"])

    def patches(self, images: torch.Tensor) -> Patches:
        """The images' patches, kept for as long as the tensor lives and is not written to."""
        key = id(images)
        kept = self._kept.get(key)
        if kept is not None and kept[0]() is images and kept[1] == images._version:
            return kept[2]
        patches = Patches.of(images, self.blocks[0].pools)
        forget = weakref.ref(images, lambda _: self._kept.pop(key, None))
        self._kept[key] = (forget, images._version, patches)
        return patches


class _FastBlock:
    def __init__(self, block: nn.Module, prefix: str) -> None:
        assert isinstance(block, ConvBlock)
        self.weight, self.bias = f"{prefix}conv.weight", f"{prefix}conv.bias"
        self.scale, self.shift = f"{prefix}norm.weight", f"{prefix}norm.bias"
        self.stride = block.conv.stride[0]
        self.epsilon = block.norm.eps
        self.slope, self.pools, self.ceil = block.slope, block.pools, block.ceil
        self.pools_first = block.order == "pool-norm-activation"
        self.takes_patches = not (self.pools and (self.pools_first or self.ceil))

    def first(self, parameters: Parameters, patches: Patches) -> torch.Tensor:
        return first_block(
            patches,
            parameters[self.weight],
            parameters[self.bias],
            parameters.get(self.scale),
            parameters[self.shift],
            self.epsilon,
            self.slope,
        )

    def __call__(self, parameters: Parameters, hidden: torch.Tensor) -> torch.Tensor:
        hidden = Convolution.apply(hidden, parameters[self.weight], parameters[self.bias], self.stride)  # type: ignore[no-untyped-call]
        if self.pools and self.pools_first:
            hidden = max_pool2d(hidden, 2, ceil_mode=self.ceil)
        hidden = BatchNorm.apply(  # type: ignore[no-untyped-call]
            hidden, parameters.get(self.scale), parameters[self.shift], self.epsilon
        )
        # A rising activation may as well come after the maximum, on a quarter of the values.
        if self.pools and not self.pools_first:
            hidden = max_pool2d(hidden, 2, ceil_mode=self.ceil)
        return leaky_relu(hidden, self.slope) if self.slope else relu(hidden)
