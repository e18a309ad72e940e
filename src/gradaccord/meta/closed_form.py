"""Convolution and batch norm as autograd functions whose second derivative is in closed form.

Automatic double backward of batch norm takes a third of a second-order step, because it differentiates
some forty elementary operations. Written out, it is one call of the batch-norm backward kernel, one dot
product and affine combinations. Every function here may be differentiated twice, and not thrice.

All images are [N, C, H, W] in channels-last memory, where these kernels are fastest on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch
from torch.autograd import Function

_aten = torch.ops.aten
Gradient = torch.Tensor | None
Backward = TypeVar("Backward", bound=Callable[..., Any])


def last_derivative(backward: Backward) -> Backward:
    """Refuse to be differentiated again.

    torch's `once_differentiable` refuses in `backward()` alone: `autograd.grad` leaves its error out of
    the graph, and a third derivative would lack terms in silence.
    """

    @wraps(backward)
    def guarded(*arguments: Any) -> Any:
        if torch.is_grad_enabled():  # so it is if and only if create_graph=True
            raise RuntimeError(
                "The fast network has two derivatives and a third was asked for (create_graph=True): "
                "give the learner fast=False."
            )
        return backward(*arguments)

    return guarded  # type: ignore[return-value]


def _convolve(x: torch.Tensor, weight: torch.Tensor, stride: int) -> torch.Tensor:
    return torch.conv2d(x, weight, None, [stride, stride], [1, 1])


def _convolve_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, stride: int, of_x: bool, of_weight: bool
) -> tuple[Gradient, Gradient]:
    by_x, by_weight, _ = _aten.convolution_backward(
        grad, x, weight, None, [stride] * 2, [1, 1], [1, 1], False, [0, 0], 1, [of_x, of_weight, False]
    )
    return by_x, by_weight


class Convolution(Function):
    """x * w for a 3x3 kernel with padding 1, ahead of a batch norm that removes any bias.

    The bias is taken only so that it has a gradient, which is zero.
    """

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, stride: int
    ) -> torch.Tensor:
        ctx.save_for_backward(x, weight, bias)
        ctx.stride = stride
        ctx.kernel = weight.contiguous(memory_format=torch.channels_last)  # else in every call
        return _convolve(x, ctx.kernel, stride)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Gradient, ...]:  # noqa: D102
        x, weight, bias = ctx.saved_tensors
        of_x, of_weight, of_bias, _ = ctx.needs_input_grad
        by_x, by_weight = ConvolutionBackward.apply(
            grad, x, weight, ctx.kernel, ctx.stride, of_x, of_weight
        )  # type: ignore[no-untyped-call]
        return by_x, by_weight, torch.zeros_like(bias) if of_bias else None, None


class ConvolutionBackward(Function):
    """(d, x, w) -> (d *' w, x *' d); against (u, v) it is <d, u * w + x * v>, trilinear."""

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any,
        grad: torch.Tensor,
        x: torch.Tensor,
        weight: torch.Tensor,
        kernel: torch.Tensor,
        stride: int,
        of_x: bool,
        of_weight: bool,
    ) -> tuple[Gradient, Gradient]:
        ctx.save_for_backward(grad, x, kernel)
        ctx.stride = stride
        ctx.set_materialize_grads(False)
        return _convolve_backward(grad, x, kernel, stride, of_x, of_weight)

    @staticmethod
    @last_derivative
    def backward(ctx: Any, u: Gradient, v: Gradient) -> tuple[Gradient, ...]:  # noqa: D102
        grad, x, weight = ctx.saved_tensors
        stride = ctx.stride
        v = None if v is None else v.contiguous(memory_format=torch.channels_last)
        by_grad = None if v is None else _convolve(x, v, stride)
        if u is not None:
            more = _convolve(u, weight, stride)
            by_grad = more if by_grad is None else by_grad.add_(more)
        by_x, by_weight = _convolve_backward(
            grad,
            x if u is None else u,
            weight if v is None else v,
            stride,
            v is not None,
            u is not None,
        )
        return by_grad, by_x, by_weight, None, None, None, None


class BatchNorm(Function):
    """w (y - mean) r + b with the batch's own statistics, r = 1 / sqrt(variance + epsilon)."""

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any, y: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor, epsilon: float
    ) -> torch.Tensor:
        out, mean, r = torch.native_batch_norm(y, weight, bias, None, None, True, 0.0, epsilon)
        ctx.save_for_backward(y, weight, mean, r)
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Gradient, ...]:  # noqa: D102
        y, weight, mean, r = ctx.saved_tensors
        by_y, by_weight, by_bias = BatchNormBackward.apply(grad, y, weight, mean, r)  # type: ignore[no-untyped-call]
        return by_y, None if weight is None else by_weight, by_bias, None


class BatchNormBackward(Function):
    """(g, y, w) -> (w r P g, sum g z, sum g), z = (y - mean) r, P g = g - mean(g) - z mean(g z).

    Against (V, vw, vb) it is, with U = r P V and k = mean(V z), q = mean(g z), s = w sum(U g):
        by g:  w U + vw z + vb
        by w:  sum(U g)
        by y:  r (vw - w r k) P g - w r q U - (r s / n) z
    """

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any,
        grad: torch.Tensor,
        y: torch.Tensor,
        weight: torch.Tensor | None,
        mean: torch.Tensor,
        r: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        by_y, by_weight, by_bias = _normalise_backward(grad, y, weight, mean, r)
        ctx.save_for_backward(grad, y, weight, mean, r, by_weight, by_bias)
        return by_y, by_weight, by_bias

    @staticmethod
    @last_derivative
    def backward(  # noqa: D102
        ctx: Any, along_y: torch.Tensor, along_weight: torch.Tensor, along_bias: torch.Tensor
    ) -> tuple[Gradient, ...]:
        grad, y, weight, mean, r, by_weight, by_bias = ctx.saved_tensors
        count = y.numel() // y.shape[1]
        u, sum_vz, _ = _normalise_backward(along_y, y, None, mean, r)
        k, q, mean_g = sum_vz / count, by_weight / count, by_bias / count
        dot = (u * grad).sum((0, 2, 3))
        s, wr = (dot, r) if weight is None else (weight * dot, weight * r)

        # by y, sorted by what the factors multiply: g, u, y and 1
        of_g = r * (along_weight - wr * k)
        of_z = -(of_g * q + r * s / count)
        of_y = of_z * r
        by_y = torch.addcmul(_wide(-of_g * mean_g - of_y * mean), y, _wide(of_y))
        by_y.addcmul_(u, _wide(-wr * q)).addcmul_(grad, _wide(of_g))

        # by g: u is not needed any more
        by_grad = u if weight is None else u.mul_(_wide(weight))
        vwr = along_weight * r
        by_grad.addcmul_(y, _wide(vwr)).add_(_wide(along_bias - vwr * mean))
        return by_grad, by_y, None if weight is None else dot, None, None


def _normalise_backward(
    grad: torch.Tensor,
    y: torch.Tensor,
    weight: torch.Tensor | None,
    mean: torch.Tensor,
    r: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(w r P g, sum g z, sum g) in one call; the kernel reads the statistics, not epsilon."""
    by_y, by_weight, by_bias = _aten.native_batch_norm_backward(
        grad, y, weight, None, None, mean, r, True, 0.0, [True, True, True]
    )
    return by_y, by_weight, by_bias


def _wide(vector: torch.Tensor) -> torch.Tensor:
    """[C] against [N, C, H, W]."""
    return vector.view(-1, 1, 1)
