"""A block of Conv-4 by hand: values, gradients, and how both change along a direction of the weights.

A second-order step needs the loss's Hessian times a vector v. By hand it is the derivative, along v, of
the forward and of the backward pass; no graph is recorded, and batch norm, whose automatic double
backward differentiates some forty elementary operations, is one call of its backward kernel, one dot
product and affine combinations.

All images are [N, C, H, W] in channels-last memory, where these kernels are fastest on a CPU. Several
tasks in one pass are side by side, as groups of channels [N, T C, H, W]: each has its own weights, and
its own statistics in the same batch norm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import nn

from gradaccord.meta.network.conv4_patches import by_kernel, convolved, gathered
from gradaccord.models.trunks.conv4 import ConvBlock

_aten = torch.ops.aten
# each with its one signature, which saves torch looking for it
_convolution_backward = _aten.convolution_backward.default
_batch_norm_backward = _aten.native_batch_norm_backward.default
_relu_backward = _aten.threshold_backward.grad_input
Maybe = torch.Tensor | None
Parameters = Mapping[str, torch.Tensor]


class Tape(NamedTuple):
    """What the forward pass leaves for the others."""

    x: torch.Tensor
    patches: Maybe  # of x, where the convolution is a product with them
    kernel: torch.Tensor  # of the convolution, in channels-last memory and in the precision of x
    scale: Maybe  # of the norm
    convolved: torch.Tensor
    y: torch.Tensor  # input of the norm
    mean: torch.Tensor
    r: torch.Tensor  # 1 / sqrt(variance + epsilon)
    picked: Maybe  # places of the maxima
    out: torch.Tensor


class Back(NamedTuple):
    """What the backward pass leaves: gradients by the norm's and the convolution's output, and sums."""

    g: torch.Tensor
    by_convolved: torch.Tensor
    by_scale: torch.Tensor
    by_shift: torch.Tensor


class Along(NamedTuple):
    """What the forward pass along a direction leaves."""

    x: Maybe  # how the block's input changes
    kernel: Maybe
    scale: torch.Tensor
    u: torch.Tensor  # how the normalised values change
    k: torch.Tensor  # mean of the change of y times the normalised values


class Block:
    """3x3 convolution with padding 1, batch norm with the batch's statistics, pooling, activation.

    The norm removes the convolution's bias, which is therefore never added and has a zero gradient.
    """

    def __init__(self, block: nn.Module, prefix: str) -> None:
        assert isinstance(block, ConvBlock)
        self.weight, self.bias = f"{prefix}conv.weight", f"{prefix}conv.bias"
        self.scale, self.shift = f"{prefix}norm.weight", f"{prefix}norm.bias"
        self.names = {self.weight, self.bias, self.scale, self.shift}
        self.stride, self.filters = block.conv.stride[0], block.conv.out_channels
        self.epsilon = block.norm.eps
        self.slope, self.pools, self.ceil = block.slope, block.pools, block.ceil
        self.pools_first = block.order == "pool-norm-activation"

    def forward(self, params: Parameters, x: torch.Tensor) -> tuple[torch.Tensor, Tape]:
        """The block's output."""
        kernel = _last(params[self.weight]).to(x.dtype)
        scale = params.get(self.scale)
        patches = gathered(x, kernel, self.stride)
        output = y = self._convolve(x, kernel, patches)
        picked = None
        if self.pools and self.pools_first:
            y, picked = self._pool(output)
        hidden, mean, r = torch.native_batch_norm(
            y, scale, params[self.shift], None, None, True, 0.0, self.epsilon
        )
        # A rising activation may as well come after the maximum, on a quarter of the values.
        if self._pools_late:
            hidden, picked = self._pool(hidden)
        out = activate_(hidden, self.slope)
        return out, Tape(x, patches, kernel, scale, output, y, mean, r, picked, out)

    def backward(
        self, tape: Tape, grad: torch.Tensor, of_x: bool
    ) -> tuple[Maybe, dict[str, torch.Tensor], Back]:
        """Gradients by the input and by the parameters; `grad` is overwritten."""
        g = through_(grad, tape.out, self.slope)
        if self._pools_late:
            g = self._unpool(g, tape)
        by_y, by_scale, by_shift = _normalise_backward(g, tape.y, tape.scale, tape.mean, tape.r)
        by_convolved = self._unpool(by_y, tape) if self.pools_first and self.pools else by_y
        by_x, by_weight = self._convolve_backward(
            by_convolved, tape.x, tape.kernel, of_x, patches=tape.patches
        )
        found = self._named(by_weight.to(by_shift.dtype), by_scale, by_shift)
        # detached: an autograd function that keeps its own results is freed by the collector alone
        return by_x, found, Back(g, by_convolved, by_scale.detach(), by_shift.detach())

    def forward_along(self, tape: Tape, v: Parameters, x: Maybe) -> tuple[torch.Tensor, Along]:
        """How the output changes when the parameters change by v and the input by x.

        With z = (y - mean) r and P t = t - mean(t) - z mean(t z), z changes by u = r P(change of y).
        """
        kernel = None if self.weight not in v else _last(v[self.weight])
        change = None if kernel is None else self._convolve(tape.x, kernel, tape.patches)
        if x is not None:
            by_input = self._convolve(x, tape.kernel)
            change = by_input if change is None else change.add_(by_input)
        if change is None:
            change = torch.zeros_like(tape.convolved)
        if self.pools and self.pools_first:
            change = _taken(change, tape.picked)
        u, sum_z, _ = _normalise_backward(change, tape.y, None, tape.mean, tape.r)
        count = tape.y.numel() // tape.y.shape[1]
        none = torch.zeros_like(tape.mean)
        scale, shift = v.get(self.scale, none), v.get(self.shift, none)
        factor = scale * tape.r
        hidden = torch.addcmul(_wide(shift - factor * tape.mean), tape.y, _wide(factor))
        hidden = hidden.add_(u) if tape.scale is None else hidden.addcmul_(u, _wide(tape.scale))
        if self._pools_late:
            hidden = _taken(hidden, tape.picked)
        out = through_(hidden, tape.out, self.slope)
        return out, Along(x, kernel, scale, u, sum_z / count)

    def backward_along(
        self, tape: Tape, back: Back, along: Along, grad: torch.Tensor, of_x: bool
    ) -> tuple[Maybe, dict[str, torch.Tensor]]:
        """How the gradients change, if that by the output changes by `grad`, which is overwritten.

        With w the norm's scale, vw its change, q = mean(g z) and k = mean(change of y times z), the
        gradient w r P g by y changes by

            w r P(change of g) + r (vw - w r k) P g - w r q u - (w r / n) sum(g u) z
        """
        g = through_(grad, tape.out, self.slope)
        if self._pools_late:
            g = self._unpool(g, tape)
        y, mean, r, u = tape.y, tape.mean, tape.r, along.u
        by_y, by_scale, by_shift = _normalise_backward(g, y, tape.scale, mean, r)
        count = y.numel() // y.shape[1]
        dot = (u * back.g).sum((0, 2, 3))
        wr = r if tape.scale is None else tape.scale * r
        q = back.by_scale / count
        # sorted by what the factors multiply: g, u, y and 1
        of_g = r * (along.scale - wr * along.k)
        of_y = -(of_g * q + wr * dot / count) * r
        rest = of_g * back.by_shift / -count - of_y * mean
        by_y.addcmul_(back.g, _wide(of_g)).addcmul_(u, _wide(-wr * q))
        by_y.addcmul_(y, _wide(of_y)).add_(_wide(rest))

        by_convolved = self._unpool(by_y, tape) if self.pools_first and self.pools else by_y
        by_x, by_weight = self._convolve_backward(
            by_convolved, tape.x, tape.kernel, of_x, patches=tape.patches
        )
        if along.x is not None or along.kernel is not None:
            more_x, more_weight = self._convolve_backward(
                back.by_convolved,
                tape.x if along.x is None else along.x,
                tape.kernel if along.kernel is None else along.kernel,
                of_x and along.kernel is not None,
                along.x is not None,
            )
            by_x = by_x if by_x is None or more_x is None else by_x.add_(more_x)
            by_weight = by_weight if more_weight is None else by_weight.add_(more_weight)
        return by_x, self._named(by_weight, by_scale.add_(dot), by_shift)

    # Prediction, with the statistics of groups of images.

    def measured(
        self, params: Parameters, x: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Images after convolution and pooling; mean and variance [N, C] of what the norm sees.

        Pooling commutes with a rising norm: where its scale is negative, the kernel's sign is turned.
        """
        kernel = _last(params[self.weight])
        if self._pools_late and self.scale in params:
            kernel = kernel * params[self.scale].sign().view(-1, 1, 1, 1)
        y = self._convolve(x, kernel)
        if self.pools and self.pools_first:
            y, _ = self._pool(y)
        rows = y.permute(0, 2, 3, 1).flatten(1, 2)
        mean = rows.mean(1)
        variance = (rows - mean.unsqueeze(1)).square_().mean(1)
        return self._pool(y)[0] if self._pools_late else y, mean, variance

    def factors(
        self, params: Parameters, means: torch.Tensor, variances: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """a and b of the norm a y + b of each group, [G, C], from its images' moments [G, n, C]."""
        mean = means.mean(1)
        variance = (variances + (means - mean.unsqueeze(1)).square()).mean(1)
        a = (variance + self.epsilon).rsqrt()
        if self.scale in params:
            a = a * (params[self.scale].abs() if self._pools_late else params[self.scale])
        return a, params[self.shift] - a * mean

    @property
    def _pools_late(self) -> bool:
        return self.pools and not self.pools_first

    def _named(
        self, by_weight: torch.Tensor, by_scale: torch.Tensor, by_shift: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        none = torch.zeros_like(by_shift)
        return {self.weight: by_weight, self.bias: none, self.scale: by_scale, self.shift: by_shift}

    def _convolve(self, x: torch.Tensor, kernel: torch.Tensor, patches: Maybe = None) -> torch.Tensor:
        if patches is not None:
            return convolved(patches, x, kernel, self.stride)
        stride = [self.stride, self.stride]
        return torch.conv2d(x, kernel, None, stride, [1, 1], [1, 1], _groups(x, kernel))

    def _convolve_backward(
        self,
        grad: torch.Tensor,
        x: torch.Tensor,
        kernel: torch.Tensor,
        of_x: bool,
        of_kernel: bool = True,
        patches: Maybe = None,
    ) -> tuple[Maybe, torch.Tensor]:
        stride, ones = [self.stride, self.stride], [1, 1]
        by_patches = None if patches is None else by_kernel(patches, grad)
        if by_patches is not None and not of_x:
            return None, by_patches
        of_kernel = of_kernel and by_patches is None
        groups, wanted = _groups(x, kernel), [of_x, of_kernel, False]
        by_x, by_weight, _ = _convolution_backward(
            grad, x, kernel, None, stride, ones, ones, False, [0, 0], groups, wanted
        )
        return by_x, by_weight if by_patches is None else by_patches

    def _pool(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pooled, places = _aten.max_pool2d_with_indices(
            hidden, [2, 2], [2, 2], [0, 0], [1, 1], self.ceil
        )
        return pooled, places

    def _unpool(self, grad: torch.Tensor, tape: Tape) -> torch.Tensor:
        spread: torch.Tensor = _aten.max_pool2d_with_indices_backward(
            grad, tape.convolved, [2, 2], [2, 2], [0, 0], [1, 1], self.ceil, tape.picked
        )
        return spread


def activate_(hidden: torch.Tensor, slope: float) -> torch.Tensor:
    """ReLU, or leaky ReLU, in place."""
    return torch.nn.functional.leaky_relu_(hidden, slope) if slope else hidden.relu_()


def through_(grad: torch.Tensor, out: torch.Tensor, slope: float) -> torch.Tensor:
    """The gradient before the activation, in place, by the sign of the activation's output."""
    if slope:
        _aten.leaky_relu_backward.grad_input(grad, out, slope, True, grad_input=grad)
    else:
        _relu_backward(grad, out, 0, grad_input=grad)
    return grad


def _groups(x: torch.Tensor, kernel: torch.Tensor) -> int:
    """Of the convolution: as many as tasks are side by side."""
    return x.shape[1] // kernel.shape[1]


def _normalise_backward(
    grad: torch.Tensor, y: torch.Tensor, scale: Maybe, mean: torch.Tensor, r: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(w r P g, sum g z, sum g) in one call; the kernel reads the statistics, not epsilon."""
    by_y, by_scale, by_shift = _batch_norm_backward(
        grad, y, scale, None, None, mean, r, True, 0.0, [True, True, True]
    )
    return by_y, by_scale, by_shift


def _taken(hidden: torch.Tensor, places: Maybe) -> torch.Tensor:
    """The values at the places of the maxima."""
    assert places is not None
    taken = hidden.flatten(2).gather(2, places.flatten(2)).view(places.shape)
    return _last(taken)


def _last(images: torch.Tensor) -> torch.Tensor:
    return images.contiguous(memory_format=torch.channels_last)


def _wide(vector: torch.Tensor) -> torch.Tensor:
    """[C] against [N, C, H, W]."""
    return vector.view(-1, 1, 1)
