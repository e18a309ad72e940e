"""The first block of Conv-4 from the images' patches, without ever writing its whole output.

The images do not change between inner steps, so that their 3x3 patches X [positions, K] can be kept,
with their mean mu and covariance S. Batch norm then needs no pass over the output X w:

    mean = mu w        variance = diag(w' S w)        h = activation(A p + B)

where p is the maximum of X w over each pooling window, A = scale r and B = shift - A mean. The maximum
picks one patch per window and channel: p is linear in w as long as the pick stays, and what remains to
be differentiated twice are A and B, which are small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd import Function
from torch.nn.functional import pad, unfold

from gradaccord.meta.closed_form import Gradient, last_derivative


class Patches(NamedTuple):
    """The 3x3 patches of a batch of images, and the moments of all of them.

    parts: one tensor [N, K, positions] for each place inside a pooling window (one without pooling)
    """

    parts: tuple[torch.Tensor, ...]
    mean: torch.Tensor  # [K]
    covariance: torch.Tensor  # [K, K]
    size: tuple[int, int]  # height and width of the block's output

    @classmethod
    def of(cls, images: torch.Tensor, pools: bool) -> Patches:
        """For a stride of 2, or for stride 1 and max-pooling by 2 that leaves an odd border out."""
        padded = pad(images, (1, 1, 1, 1))
        height, width = images.shape[2:]
        parts: tuple[torch.Tensor, ...]
        everything: tuple[torch.Tensor, ...]
        if not pools:
            parts = everything = (unfold(padded, 3, stride=2),)
            size = ((height + 1) // 2, (width + 1) // 2)
        else:
            size = (height // 2, width // 2)
            tall, broad = 2 * size[0] + 1, 2 * size[1] + 1
            parts = tuple(
                unfold(padded[:, :, i : i + tall, j : j + broad], 3, stride=2)
                for i in (0, 1)
                for j in (0, 1)
            )
            even = height % 2 == 0 and width % 2 == 0
            everything = parts if even else (unfold(padded, 3),)
        return cls(parts, *_moments(everything), size)


def _moments(parts: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and covariance, summed in float64: a filter that takes differences sees little variance."""
    count = sum(part.shape[0] * part.shape[2] for part in parts)
    dimension = parts[0].shape[1]
    total = torch.zeros(dimension, dtype=torch.float64, device=parts[0].device)
    products = total.new_zeros(dimension, dimension)
    for part in parts:
        wide = part.double()
        total += wide.sum((0, 2))
        products += torch.bmm(wide, wide.transpose(1, 2)).sum(0)
    mean = total / count
    covariance = products / count - torch.outer(mean, mean)
    return mean.to(parts[0].dtype), covariance.to(parts[0].dtype)


def first_block(
    patches: Patches,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    scale: torch.Tensor | None,
    shift: torch.Tensor,
    epsilon: float,
    slope: float,
) -> torch.Tensor:
    """Convolution, batch norm, max-pooling (if of several parts) and activation: [N, C, H, W]."""
    w = weight.flatten(1).t()
    if len(patches.parts) > 1 and scale is not None:
        # The maximum of a falling function is its value at the minimum: turn such filters around.
        sign = torch.where(scale.detach() < 0, -1.0, 1.0).to(w.dtype)
        w, scale = w * sign, scale * sign
    mean = patches.mean @ w
    r = ((w * (patches.covariance @ w)).sum(0) + epsilon).rsqrt()
    a = r if scale is None else scale * r
    if bias is not None:
        shift = _Unmoved.apply(shift, bias)  # type: ignore[no-untyped-call]
    picked = Pick.apply(w, patches.parts)  # type: ignore[no-untyped-call]
    hidden: torch.Tensor = Affine.apply(picked, a, shift - a * mean, slope)  # type: ignore[no-untyped-call]
    height, width = patches.size
    return hidden.view(len(hidden), height, width, -1).permute(0, 3, 1, 2)


class _Unmoved(Function):
    """The first argument; the second has a gradient, which is zero."""

    @staticmethod
    def forward(ctx: Any, shift: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(bias)
        return shift.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Gradient, ...]:
        return grad, torch.zeros_like(ctx.saved_tensors[0])


class Pick(Function):
    """p = max over the parts of X w, [N, positions, C]; linear in w while the picks stay the same."""

    @staticmethod
    def forward(ctx: Any, w: torch.Tensor, parts: tuple[torch.Tensor, ...]) -> torch.Tensor:  # noqa: D102
        picked = _times(parts[0], w)
        place = None
        for number, part in enumerate(parts[1:], 1):
            other = _times(part, w)
            above = torch.gt(other, picked, out=torch.empty_like(other))
            # the first of equal values wins, as in torch's own pooling
            place = above if place is None else torch.maximum(place, above.mul_(number), out=place)
            picked = torch.maximum(picked, other, out=picked)
        ctx.parts, ctx.place = parts, place
        return picked

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Gradient, ...]:  # noqa: D102
        return PickBackward.apply(grad, ctx.parts, ctx.place), None  # type: ignore[no-untyped-call]


class PickBackward(Function):
    """g -> sum of X' g over the picked patches."""

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any, grad: torch.Tensor, parts: tuple[torch.Tensor, ...], place: Gradient
    ) -> torch.Tensor:
        ctx.parts, ctx.place = parts, place
        if place is None:
            return torch.bmm(parts[0], grad).sum(0)
        total = grad.new_zeros(parts[0].shape[1], grad.shape[2])
        here = torch.empty_like(place)
        for number, part in enumerate(parts):
            torch.eq(place, number, out=here)
            total += torch.bmm(part, here.mul_(grad)).sum(0)
        return total

    @staticmethod
    @last_derivative
    def backward(ctx: Any, along: torch.Tensor) -> tuple[Gradient, ...]:  # noqa: D102
        picked = _times(ctx.parts[0], along)
        if ctx.place is not None:
            here = torch.empty_like(ctx.place)
            picked.mul_(torch.eq(ctx.place, 0, out=here))
            for number, part in enumerate(ctx.parts[1:], 1):
                picked.addcmul_(_times(part, along), torch.eq(ctx.place, number, out=here))
        return picked, None, None


def _times(part: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """X w for every image: [N, K, positions] and [K, C] to [N, positions, C]."""
    return torch.bmm(part.transpose(1, 2), w.expand(len(part), *w.shape))


class Affine(Function):
    """activation(a p + b), channels last."""

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any, p: torch.Tensor, a: torch.Tensor, b: torch.Tensor, slope: float
    ) -> torch.Tensor:
        hidden = torch.addcmul(b, p, a)
        hidden = torch.nn.functional.leaky_relu_(hidden, slope) if slope else hidden.relu_()
        ctx.save_for_backward(p, a, hidden)
        ctx.slope = slope
        return hidden

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Gradient, ...]:  # noqa: D102
        p, a, hidden = ctx.saved_tensors
        return (*AffineBackward.apply(grad, p, a, hidden.detach(), ctx.slope), None)  # type: ignore[no-untyped-call]


class AffineBackward(Function):
    """(G, p, a) -> (a g, sum g p, sum g) with g = G times the activation's slope."""

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any,
        grad: torch.Tensor,
        p: torch.Tensor,
        a: torch.Tensor,
        hidden: torch.Tensor,
        slope: float,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        g = _through(grad, hidden, slope)
        ctx.save_for_backward(g, p, a, hidden)
        ctx.slope = slope
        by_a, by_b = _sums(g, p)
        return g * a, by_a, by_b

    @staticmethod
    @last_derivative
    def backward(  # noqa: D102
        ctx: Any, along_p: torch.Tensor, along_a: torch.Tensor, along_b: torch.Tensor
    ) -> tuple[Gradient, ...]:
        g, p, a, hidden = ctx.saved_tensors
        by_a, _ = _sums(along_p, g)
        by_g = torch.addcmul(along_b, along_p, a).addcmul_(p, along_a)
        return _through(by_g, hidden, ctx.slope), g * along_a, by_a, None, None


def _sums(g: torch.Tensor, p: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums of g p and of g over images and positions, in one pass of the batch-norm kernel."""
    count, positions, channels = p.shape
    g, p = (t.reshape(count, positions, 1, channels).permute(0, 3, 1, 2) for t in (g, p))
    zero, one = p.new_zeros(channels), p.new_ones(channels)
    _, of_product, of_g = torch.ops.aten.native_batch_norm_backward(
        g, p, None, None, None, zero, one, True, 0.0, [False, True, True]
    )
    return of_product, of_g


def _through(grad: torch.Tensor, hidden: torch.Tensor, slope: float) -> torch.Tensor:
    """The gradient before the activation, told by the sign of what came out of it."""
    through: torch.Tensor = (
        torch.ops.aten.leaky_relu_backward(grad, hidden, slope, True)
        if slope
        else torch.ops.aten.threshold_backward(grad, hidden, 0)
    )
    return through
