"""The first block of Conv-4 from the images' patches, without ever writing its whole output.

The images do not change between inner steps, so that their 3x3 patches X [positions, K] can be kept,
with their mean mu and covariance S. Batch norm then needs no pass over the output X w:

    mean = mu w        r = 1 / sqrt(diag(w' S w) + epsilon)        h = max over a window of X (a w) + b

with a = scale r and b = shift - a mean. The maximum picks one patch per window and channel: h is linear
in [a w; b] as long as the picks stay, and of its gradient g only M = X' g and sum g are needed. What
remains to be differentiated, once and twice, are matrices [K, C]. A last row of ones in X carries b.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import pad, unfold

from gradaccord.meta.network.conv4_block import Block, Maybe, Parameters, activate_, through_


class Patches(NamedTuple):
    """The 3x3 patches of a batch of images, and the moments of all of them.

    parts: one tensor [N, K + 1, positions] for each place inside a pooling window (one without
        pooling); the last row is 1
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
        moments = _moments(everything)
        return cls(tuple(pad(part, (0, 0, 0, 1), value=1.0) for part in parts), *moments, size)


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


class FirstTape(NamedTuple):
    """What the forward pass leaves for the others."""

    patches: Patches
    w: torch.Tensor  # [K, C]
    sw: torch.Tensor  # S w
    scale: Maybe
    mean: torch.Tensor
    r: torch.Tensor
    a: torch.Tensor
    place: Maybe  # which part was picked
    out: torch.Tensor  # [N, positions, C]
    shape: torch.Size  # of the kernel


class FirstBack(NamedTuple):
    """What the backward pass leaves."""

    m: torch.Tensor  # X' g
    by_a: torch.Tensor
    by_b: torch.Tensor


class FirstAlong(NamedTuple):
    """What the forward pass along a direction leaves: changes of the tape's fields."""

    w: torch.Tensor
    scale: Maybe
    mean: torch.Tensor
    r: torch.Tensor
    a: torch.Tensor


class FirstBlock(Block):
    """A block that is given patches; otherwise as `Block`."""

    def __init__(self, block: nn.Module, prefix: str) -> None:
        super().__init__(block, prefix)
        self.takes_patches = not (self.pools and (self.pools_first or self.ceil))

    def first(self, params: Parameters, patches: Patches) -> tuple[torch.Tensor, FirstTape]:
        """The block's output [N, C, H, W]."""
        w, scale = params[self.weight].flatten(1).t(), params.get(self.scale)
        sw = patches.covariance @ w
        mean = patches.mean @ w
        r = ((w * sw).sum(0) + self.epsilon).rsqrt()
        a = r if scale is None else scale * r
        hidden, place = _largest(patches.parts, _rows(w * a, params[self.shift] - a * mean))
        out = activate_(hidden, self.slope)
        tape = FirstTape(patches, w, sw, scale, mean, r, a, place, out, params[self.weight].shape)
        return _images(out, patches), tape

    def first_backward(
        self, tape: FirstTape, grad: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], FirstBack]:
        """Gradients by the parameters; `grad` is overwritten."""
        m, by_b = self._gathered(tape, grad)
        by_a = (tape.w * m).sum(0) - tape.mean * by_b  # b = shift - a mean
        by_r = by_a if tape.scale is None else by_a * tape.scale
        by_w = torch.addcmul(m * tape.a, tape.sw, -tape.r.pow(3) * by_r)
        by_w.addr_(tape.patches.mean, -tape.a * by_b)
        found = self._named(_kernel(by_w, tape), by_a * tape.r, by_b)
        return found, FirstBack(m, by_a, by_b.detach())

    def first_along(self, tape: FirstTape, v: Parameters) -> tuple[torch.Tensor, FirstAlong]:
        """How the output changes when the parameters change by v."""
        none = torch.zeros_like(tape.mean)
        scale, shift = v.get(self.scale, none), v.get(self.shift, none)
        w = v[self.weight].flatten(1).t() if self.weight in v else torch.zeros_like(tape.w)
        mean = tape.patches.mean @ w
        r = -tape.r.pow(3) * (w * tape.sw).sum(0)
        a = r if tape.scale is None else torch.addcmul(scale * tape.r, tape.scale, r)
        change = torch.addcmul(w * tape.a, tape.w, a)
        rows = _rows(change, shift - a * tape.mean - tape.a * mean)
        hidden = _at_picks(tape.patches.parts, tape.place, rows)
        out = through_(hidden, tape.out, self.slope)
        along = FirstAlong(w, None if tape.scale is None else scale, mean, r, a)
        return _images(out, tape.patches), along

    def first_backward_along(
        self, tape: FirstTape, back: FirstBack, along: FirstAlong, grad: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """How the gradients change, if that by the output changes by `grad`, which is overwritten."""
        m, by_b = self._gathered(tape, grad)
        by_a = (along.w * back.m + tape.w * m).sum(0) - along.mean * back.by_b - tape.mean * by_b
        by_scale = by_a * tape.r + back.by_a * along.r
        old_r, by_r = back.by_a, by_a
        if tape.scale is not None and along.scale is not None:
            old_r, by_r = old_r * tape.scale, by_a * tape.scale + old_r * along.scale
        square = tape.r * tape.r
        of_sw = -square * (tape.r * by_r + 3 * along.r * old_r)
        by_w = m * tape.a
        by_w.addcmul_(back.m, along.a).addcmul_(tape.sw, of_sw)
        by_w.addcmul_(tape.patches.covariance @ along.w, -square * tape.r * old_r)
        by_w.addr_(tape.patches.mean, -(along.a * back.by_b + tape.a * by_b))
        return self._named(_kernel(by_w, tape), by_scale, by_b)

    def _gathered(self, tape: FirstTape, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """X' g and sum g, after the activation's slope."""
        g = grad.permute(0, 2, 3, 1).reshape(tape.out.shape)
        rows = _onto_picks(tape.patches.parts, tape.place, through_(g, tape.out, self.slope))
        return rows[:-1], rows[-1]


def _rows(w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.cat([w, b.unsqueeze(0)])


def _kernel(w: torch.Tensor, tape: FirstTape) -> torch.Tensor:
    return w.t().reshape(tape.shape)


def _images(hidden: torch.Tensor, patches: Patches) -> torch.Tensor:
    """[N, positions, C] to [N, C, H, W]; the memory is channels-last already."""
    return hidden.view(len(hidden), *patches.size, -1).permute(0, 3, 1, 2)


def _times(part: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """X w for every image: [N, K, positions] and [K, C] to [N, positions, C]."""
    return torch.bmm(part.transpose(1, 2), rows.expand(len(part), *rows.shape))


def _largest(parts: tuple[torch.Tensor, ...], rows: torch.Tensor) -> tuple[torch.Tensor, Maybe]:
    """The maximum over the parts, and from which part it is."""
    picked = _times(parts[0], rows)
    place = None
    for number, part in enumerate(parts[1:], 1):
        other = _times(part, rows)
        above = torch.gt(other, picked, out=torch.empty_like(other))
        # the first of equal values wins, as in torch's own pooling
        place = above if place is None else torch.maximum(place, above.mul_(number), out=place)
        picked = torch.maximum(picked, other, out=picked)
    return picked, place


def _at_picks(parts: tuple[torch.Tensor, ...], place: Maybe, rows: torch.Tensor) -> torch.Tensor:
    """X w at the patches that were picked."""
    picked = _times(parts[0], rows)
    if place is not None:
        here = torch.empty_like(place)
        picked.mul_(torch.eq(place, 0, out=here))
        for number, part in enumerate(parts[1:], 1):
            picked.addcmul_(_times(part, rows), torch.eq(place, number, out=here))
    return picked


def _onto_picks(parts: tuple[torch.Tensor, ...], place: Maybe, g: torch.Tensor) -> torch.Tensor:
    """X' g over the patches that were picked."""
    if place is None:
        return torch.bmm(parts[0], g).sum(0)
    total = g.new_zeros(parts[0].shape[1], g.shape[2])
    here = torch.empty_like(place)
    for number, part in enumerate(parts):
        torch.eq(place, number, out=here)
        total += torch.bmm(part, here.mul_(g)).sum(0)
    return total
