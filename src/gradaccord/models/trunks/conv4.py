"""Conv-4, the network of few-shot learning: four blocks of convolution and batch norm, then linear."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import nn
from torch.nn.functional import batch_norm, conv2d, leaky_relu, max_pool2d, relu

from gradaccord.core.checks import one_of, whole_number

Downsample = Literal["stride", "pool"]
Order = Literal["norm-activation-pool", "norm-pool-activation", "pool-norm-activation"]
Activation = Literal["relu", "leaky_relu"]
Head = Literal["flatten", "mean"]
Start = Literal["glorot", "maml"]

SLOPE = 0.01  # of leaky ReLU below zero


class Conv4(nn.Module):
    """Images [N, channels, size, size] to logits [N, ways].

    Each block is a 3x3 convolution with padding 1, batch norm, an activation, and either stride 2 or
    max-pooling by 2. Batch norm always uses the statistics of the batch at hand, in evaluation too:
    there are no running ones. The published code bases differ in everything else; their layouts are
    the class methods, and `norm-pool-activation` gives the same values as `norm-activation-pool`.

    downsample: "stride" (no pooling; `order` and `ceil` do not apply) or "pool"
    order:      of batch norm, activation and pooling inside a block
    ceil:       pooling keeps the border of an odd size (84, 42, 21, 11, 6 and not 84, 42, 21, 10, 5)
    head:       the linear layer sees all positions ("flatten") or their mean ("mean")
    scale:      batch norm has a weight besides its bias
    start:      "glorot" (uniform) weights everywhere, or Finn's standard normal ones in the head
    """

    def __init__(
        self,
        ways: int,
        channels: int = 1,
        size: int = 28,
        filters: int = 64,
        *,
        downsample: Downsample = "stride",
        order: Order = "norm-activation-pool",
        activation: Activation = "relu",
        head: Head = "flatten",
        ceil: bool = False,
        scale: bool = True,
        epsilon: float = 1e-5,
        start: Start = "glorot",
    ) -> None:
        super().__init__()
        numbers = {"ways": ways, "channels": channels, "size": size, "filters": filters}
        for field, number in numbers.items():
            whole_number(field, number)
        choices: dict[str, tuple[str, Any]] = {
            "downsample": (downsample, Downsample),
            "order": (order, Order),
            "activation": (activation, Activation),
            "head": (head, Head),
            "start": (start, Start),
        }
        for field, (value, allowed) in choices.items():
            one_of(field, value, allowed)
        self.ways, self.channels, self.size, self.filters = ways, channels, size, filters
        self.downsample: Downsample = downsample
        self.blocks = nn.ModuleList()
        for width in (channels, filters, filters, filters):
            self.blocks.append(
                ConvBlock(width, filters, downsample, order, activation, ceil, scale, epsilon)
            )
            size = (size + 1) // 2 if downsample == "stride" or ceil else size // 2
        if size < 1:
            raise ValueError(
                f"`size` is {self.size}, too small to be halved four times: take 16 or more."
            )
        self.head_sees: Head = head
        self.head = nn.Linear(filters if head == "mean" else filters * size * size, ways)
        nn.init.zeros_(self.head.bias)
        if start == "maml":
            nn.init.normal_(self.head.weight)
        else:
            nn.init.xavier_uniform_(self.head.weight)

    @classmethod
    def maml_omniglot(cls, ways: int, channels: int = 1, size: int = 28, filters: int = 64) -> Conv4:
        """Finn et al. 2017, Omniglot: 64 filters, stride 2, mean of positions, batch norm unscaled."""
        return cls(ways, channels, size, filters, head="mean", scale=False, epsilon=1e-3, start="maml")

    @classmethod
    def maml_imagenet(cls, ways: int, filters: int = 32, channels: int = 3, size: int = 84) -> Conv4:
        """Finn et al. 2017, mini-ImageNet: 32 filters, batch norm, ReLU, max-pool; 84x84 pixels."""
        return cls(ways, channels, size, filters, downsample="pool", scale=False, epsilon=1e-3)

    @classmethod
    def reptile_omniglot(cls, ways: int, channels: int = 1, size: int = 28, filters: int = 64) -> Conv4:
        """openai/supervised-reptile, Omniglot: 64 filters, stride 2, linear layer on all positions."""
        return cls(ways, channels, size, filters, epsilon=1e-3)

    @classmethod
    def reptile_imagenet(cls, ways: int, channels: int = 3, size: int = 84, filters: int = 32) -> Conv4:
        """openai/supervised-reptile, mini-ImageNet: 32 filters, max-pool before batch norm and ReLU."""
        return cls(
            ways, channels, size, filters, downsample="pool", order="pool-norm-activation", ceil=True,
            epsilon=1e-3,
        )  # fmt: skip

    @classmethod
    def mamlpp(cls, ways: int, channels: int = 1, size: int = 28, filters: int = 64) -> Conv4:
        """MAML++ (64 filters on Omniglot, 48 on mini-ImageNet): batch norm, leaky ReLU, max-pool."""
        return cls(ways, channels, size, filters, downsample="pool", activation="leaky_relu")

    @classmethod
    def gradient_sharing(cls, ways: int, channels: int = 3, size: int = 84, filters: int = 48) -> Conv4:
        """Chang & Lipson 2020: the network of MAML++ with 48 filters on 84x84 pixels."""
        return cls.mamlpp(ways, channels, size, filters)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The logits [N, ways]."""
        hidden = images
        for block in self.blocks:
            hidden = block(hidden)
        logits: torch.Tensor = self.head(
            hidden.mean((2, 3)) if self.head_sees == "mean" else hidden.flatten(1)
        )
        return logits


class ShiftedBatchNorm(nn.BatchNorm2d):
    """Batch norm with a bias and no weight.

    The bias is added separately: torch cannot differentiate twice a batch norm that has a bias alone.
    """

    def __init__(self, filters: int, *, eps: float, track_running_stats: bool) -> None:
        super().__init__(filters, eps=eps, affine=False, track_running_stats=track_running_stats)
        self.bias = nn.Parameter(torch.zeros(filters))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """The normalised values, shifted."""
        normed = batch_norm(hidden, None, None, None, None, True, 0.0, self.eps)
        return normed + self.bias.view(-1, 1, 1)


class ConvBlock(nn.Module):
    """Convolution, batch norm with the batch's statistics, activation and, where asked for, pooling."""

    def __init__(
        self,
        width: int,
        filters: int,
        downsample: Downsample,
        order: Order,
        activation: Activation,
        ceil: bool,
        scale: bool,
        epsilon: float,
    ) -> None:
        super().__init__()
        self.pools = downsample == "pool"
        self.order: Order = order
        self.slope = SLOPE if activation == "leaky_relu" else 0.0
        self.ceil = ceil
        self.conv = nn.Conv2d(width, filters, 3, stride=1 if self.pools else 2, padding=1)
        nn.init.xavier_uniform_(self.conv.weight)
        assert self.conv.bias is not None
        nn.init.zeros_(self.conv.bias)
        norm = nn.BatchNorm2d if scale else ShiftedBatchNorm
        self.norm = norm(filters, eps=epsilon, track_running_stats=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Half the height and width."""
        hidden = self._convolve(hidden)
        if not self.pools:
            return self._activate(self.norm(hidden))
        if self.order == "pool-norm-activation":
            return self._activate(self.norm(self._pool(hidden)))
        if self.order == "norm-pool-activation":
            return self._activate(self._pool(self.norm(hidden)))
        return self._pool(self._activate(self.norm(hidden)))

    def _convolve(self, hidden: torch.Tensor) -> torch.Tensor:
        """Without the bias, which the norm would remove again: so its gradient is zero, not rounding.

        Adam would make whole steps of the rounding.
        """
        assert self.conv.bias is not None
        weight = self.conv.weight + 0 * self.conv.bias.view(-1, 1, 1, 1)
        return conv2d(hidden, weight, None, self.conv.stride, self.conv.padding)

    def _pool(self, hidden: torch.Tensor) -> torch.Tensor:
        return max_pool2d(hidden, 2, ceil_mode=self.ceil)

    def _activate(self, hidden: torch.Tensor) -> torch.Tensor:
        return leaky_relu(hidden, self.slope) if self.slope else relu(hidden)
