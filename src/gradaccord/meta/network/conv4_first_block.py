"""The first block of Conv-4 from the images' patches, without ever writing its whole output.

The images do not change between inner steps, so that their 3x3 patches X [positions, K] can be kept,
less their mean, with their covariance S. Batch norm then needs no pass over the output X w:

    r = 1 / sqrt(diag(w' S w) + epsilon)        h = max over a window of X (a w) + shift

with a = scale r. The maximum picks one patch per window and channel: h is linear in [a w; shift] as
long as the picks stay, and of its gradient g only M = X' g and sum g are needed. What remains to be
differentiated, once and twice, are matrices [K, C]. A last row of ones in X carries the shift.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import pad, unfold

from gradaccord.meta.network.conv4_block import Block, Maybe, Parameters, activate_, through_


class Patches(NamedTuple):
    """The 3x3 patches of a batch of images less their mean, and the covariance of all of them.

    parts: one tensor [K + 1, images x positions] for each place inside a pooling window (one without
        pooling), in bfloat16 for activations in it; the last row is 1
    """

    parts: tuple[torch.Tensor, ...]
    covariance: torch.Tensor  # [K, K]
    size: tuple[int, int]  # height and width of the block's output

    @classmethod
    def of(cls, images: torch.Tensor, pools: bool, batches: int = 1) -> list[Patches]:
        """For a stride of 2, or for stride 1 and max-pooling by 2 that leaves an odd border out.

        batches: of one size, which the images are one after the other; each has its own moments.
        """
        padded = pad(images, (1, 1, 1, 1))
        height, width = images.shape[2:]
        border: tuple[torch.Tensor, ...] = ()  # all patches, if the parts leave some out
        if not pools:
            parts: tuple[torch.Tensor, ...] = (unfold(padded, 3, stride=2),)
            size = ((height + 1) // 2, (width + 1) // 2)
        else:
            size = (height // 2, width // 2)
            tall, broad = 2 * size[0] + 1, 2 * size[1] + 1
            parts = tuple(
                unfold(padded[:, :, i : i + tall, j : j + broad], 3, stride=2)
                for i in (0, 1)
                for j in (0, 1)
            )
            border = () if height % 2 == 0 and width % 2 == 0 else (unfold(padded, 3),)
        mean = _mean(border or parts, batches)
        rows = [_rows_of(part, mean) for part in parts]
        covariance = _covariance([_rows_of(part, mean) for part in border] or rows)
        return [cls(tuple(r[b] for r in rows), covariance[b], size) for b in range(batches)]


def _mean(parts: Sequence[torch.Tensor], batches: int) -> torch.Tensor:
    """Of each batch, [batches, K], summed in float64."""
    count = sum(part.shape[0] * part.shape[2] for part in parts) // batches
    sums = [part.sum(2, dtype=torch.float64).view(batches, -1, part.shape[1]).sum(1) for part in parts]
    mean: torch.Tensor = sum(sums[1:], sums[0]) / count
    return mean.to(parts[0].dtype)


def _rows_of(part: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    """[images, K, positions] less the mean as [batches, K + 1, images x positions], the last row 1."""
    batches, width = mean.shape
    part = part.view(batches, -1, *part.shape[1:]).transpose(1, 2)
    rows = part.new_empty(batches, width + 1, *part.shape[2:])
    torch.sub(part, mean.view(batches, width, 1, 1), out=rows[:, :-1])
    rows[:, -1] = 1
    return rows.flatten(2)


def _covariance(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    """Of each batch, summed in float64: a filter that takes differences sees little variance."""
    count = sum(each.shape[2] for each in rows)
    products = []
    for each in rows:
        wide = each[:, :-1].double()
        products.append(torch.bmm(wide, wide.mT))
    total: torch.Tensor = sum(products[1:], products[0])
    return (total / count).to(rows[0].dtype)


class FirstTape(NamedTuple):
    """What the forward pass leaves for the others."""

    patches: Patches
    w: torch.Tensor  # [K, C]
    sw: torch.Tensor  # S w
    scale: Maybe
    r: torch.Tensor
    a: torch.Tensor
    place: Maybe  # which part was picked
    out: torch.Tensor  # [images x positions, C]
    shape: torch.Size  # of the kernel


class FirstBack(NamedTuple):
    """What the backward pass leaves."""

    m: torch.Tensor  # X' g
    by_a: torch.Tensor


class FirstAlong(NamedTuple):
    """What the forward pass along a direction leaves: changes of the tape's fields."""

    w: torch.Tensor
    scale: Maybe
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
        r = (w * sw).sum(0).add_(self.epsilon).rsqrt_()
        a = r if scale is None else scale * r
        hidden, place = _largest(patches.parts, _rows(w * a, params[self.shift], patches))
        out = activate_(hidden, self.slope)
        tape = FirstTape(patches, w, sw, scale, r, a, place, out, params[self.weight].shape)
        return _images(out, patches), tape

    def first_backward(
        self, tape: FirstTape, grad: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], FirstBack]:
        """Gradients by the parameters; `grad` is overwritten."""
        m, by_b = self._gathered(tape, grad)
        by_a = (tape.w * m).sum(0)
        by_r = by_a if tape.scale is None else by_a * tape.scale
        by_w = torch.addcmul(m * tape.a, tape.sw, tape.r.pow(3) * by_r, value=-1)
        found = self._named(_kernel(by_w, tape), by_a * tape.r, by_b)
        return found, FirstBack(m, by_a)

    def first_along(self, tape: FirstTape, v: Parameters) -> tuple[torch.Tensor, FirstAlong]:
        """How the output changes when the parameters change by v."""
        none = torch.zeros_like(tape.r)
        scale, shift = v.get(self.scale, none), v.get(self.shift, none)
        w = v[self.weight].flatten(1).t() if self.weight in v else torch.zeros_like(tape.w)
        r = -tape.r.pow(3) * (w * tape.sw).sum(0)
        a = r if tape.scale is None else torch.addcmul(scale * tape.r, tape.scale, r)
        change = torch.addcmul(w * tape.a, tape.w, a)
        hidden = _at_picks(tape.patches.parts, tape.place, _rows(change, shift, tape.patches))
        out = through_(hidden, tape.out, self.slope)
        along = FirstAlong(w, None if tape.scale is None else scale, r, a)
        return _images(out, tape.patches), along

    def first_backward_along(
        self, tape: FirstTape, back: FirstBack, along: FirstAlong, grad: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """How the gradients change, if that by the output changes by `grad`, which is overwritten."""
        m, by_b = self._gathered(tape, grad)
        by_a = (along.w * back.m + tape.w * m).sum(0)
        by_scale = by_a * tape.r + back.by_a * along.r
        old_r, by_r = back.by_a, by_a
        if tape.scale is not None and along.scale is not None:
            old_r, by_r = old_r * tape.scale, by_a * tape.scale + old_r * along.scale
        square = tape.r * tape.r
        of_sw = -square * (tape.r * by_r + 3 * along.r * old_r)
        by_w = m * tape.a
        by_w.addcmul_(back.m, along.a).addcmul_(tape.sw, of_sw)
        by_w.addcmul_(tape.patches.covariance @ along.w, -square * tape.r * old_r)
        return self._named(_kernel(by_w, tape), by_scale, by_b)

    def _gathered(self, tape: FirstTape, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """X' g and sum g, after the activation's slope."""
        g = grad.permute(0, 2, 3, 1).reshape(tape.out.shape)
        rows = _onto_picks(tape.patches.parts, tape.place, through_(g, tape.out, self.slope))
        rows = rows.to(tape.w.dtype)
        return rows[:-1], rows[-1]


def _rows(w: torch.Tensor, shift: torch.Tensor, patches: Patches) -> torch.Tensor:
    """What the patches are multiplied by."""
    return torch.cat([w, shift.unsqueeze(0)]).to(patches.parts[0].dtype)


def _kernel(w: torch.Tensor, tape: FirstTape) -> torch.Tensor:
    return w.t().reshape(tape.shape)


def _images(hidden: torch.Tensor, patches: Patches) -> torch.Tensor:
    """[N positions, C] to [N, C, H, W]; the memory is channels-last already."""
    return hidden.view(-1, *patches.size, hidden.shape[1]).permute(0, 3, 1, 2)


def _largest(parts: tuple[torch.Tensor, ...], rows: torch.Tensor) -> tuple[torch.Tensor, Maybe]:
    """The maximum of X w over the parts, and from which part it is."""
    picked = parts[0].t() @ rows
    place = None
    for number, part in enumerate(parts[1:], 1):
        other = part.t() @ rows
        above = torch.gt(other, picked, out=torch.empty_like(other))
        # the first of equal values wins, as in torch's own pooling
        place = above if place is None else torch.maximum(place, above.mul_(number), out=place)
        picked = torch.maximum(picked, other, out=picked)
    return picked, place


def _at_picks(parts: tuple[torch.Tensor, ...], place: Maybe, rows: torch.Tensor) -> torch.Tensor:
    """X w at the patches that were picked."""
    picked = parts[0].t() @ rows
    if place is not None:
        here = torch.empty_like(place)
        picked.mul_(torch.eq(place, 0, out=here))
        for number, part in enumerate(parts[1:], 1):
            picked.addcmul_(part.t() @ rows, torch.eq(place, number, out=here))
    return picked


def _onto_picks(parts: tuple[torch.Tensor, ...], place: Maybe, g: torch.Tensor) -> torch.Tensor:
    """X' g over the patches that were picked."""
    if place is None:
        return parts[0] @ g
    total = g.new_zeros(len(parts[0]), g.shape[1])
    here = torch.empty_like(place)
    for number, part in enumerate(parts):
        torch.eq(place, number, out=here)
        total.addmm_(part, here.mul_(g))
    return total
