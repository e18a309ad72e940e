"""Random-sign sketches: a sixteenth of a gradient's numbers, with nearly its dot products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import torch

from gradaccord.core.bank import Gradient, Rows, as_real
from gradaccord.core.sharding import local

FOLD = 16  # numbers that become one
WIDTH = 1 << 16  # columns of signs: few enough to stay in the cache

Key: TypeAlias = tuple[int, torch.device, torch.dtype]  # a group of parameters, where and how they are


class Sketch:
    """One step's signs. S maps the n numbers of a group's gradient to n / 16, alike for every task:

        (S g)_k = sum_r s_rk g_rk                     g cut into 16 rows, s_rk = -1 or 1 at random
        E (S g).(S h) = g.h,    standard deviation about |g| |h| / sqrt(n / 16)

    The gradients of a group's parameters are laid end to end before they are folded, into a prime
    number of columns: the large numbers of a matrix stand in a few of its columns, and would meet one
    another if these came to lie upon each other.
    S is linear: sums of sketches, over micro-batches or processes, are sketches of sums. A sign is the
    product of one in a table that all blocks of columns share and one of its own row and block; two
    errors are as uncorrelated as with signs of their own, and hardly any sign has to be drawn.

    groups: of each parameter.
    """

    def __init__(self, seed: int, tensors: Sequence[torch.Tensor], groups: Sequence[int]) -> None:
        self.seed = seed
        self.keys: list[Key] = []
        self.starts: list[int] = []
        self._numbers: dict[Key, int] = {}
        self._tables: dict[tuple[torch.device, torch.dtype], torch.Tensor] = {}
        self._flips: dict[Key, list[list[int]]] = {}
        for tensor, group in zip(tensors, groups, strict=True):
            real = as_real(local(tensor.detach()))
            wide = torch.float64 if real.dtype == torch.float64 else torch.float32
            key = (group, real.device, wide)
            self.keys.append(key)
            self.starts.append(self._numbers.get(key, 0))
            self._numbers[key] = self.starts[-1] + real.numel()

    def size(self, key: Key) -> int:
        """How many numbers the sketch of a group has."""
        return next_prime(-(-self._numbers[key] // FOLD))

    def add(self, sketches: dict[Key, torch.Tensor], position: int, gradient: Gradient) -> None:
        """Add the gradient of the parameter at a position to its group's sketch."""
        key, start = self.keys[position], self.starts[position]
        size, (_, device, dtype) = self.size(key), key
        if key not in sketches:
            sketches[key] = torch.zeros(size, device=device, dtype=dtype)
        whole = gradient.dense() if isinstance(gradient, Rows) else gradient
        flat = as_real(whole).reshape(-1)
        table, flips = self._table(device, dtype), self._flips_of(key)
        sketch, done = sketches[key], 0
        while done < len(flat):
            row, column = divmod(start + done, size)
            block, shift = divmod(column, WIDTH)
            length = min(len(flat) - done, WIDTH - shift, size - column)
            sketch[column : column + length].addcmul_(
                flat[done : done + length].to(dtype),
                table[row, shift : shift + length],
                value=flips[row][block],
            )
            done += length

    def _table(self, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
        if (device, dtype) not in self._tables:
            self._tables[device, dtype] = _signs(self.seed, FOLD, WIDTH).to(device, dtype)
        return self._tables[device, dtype]

    def _flips_of(self, key: Key) -> list[list[int]]:
        if key not in self._flips:
            seed = self.seed + 1 + list(self._numbers).index(key)
            self._flips[key] = _signs(seed, FOLD, self.size(key) // WIDTH + 1).tolist()
        return self._flips[key]


@lru_cache
def next_prime(least: int) -> int:
    """The smallest prime number that is not below this one."""
    number = max(least, 2)
    while any(number % divisor == 0 for divisor in range(2, math.isqrt(number) + 1)):
        number += 1
    return number


def _signs(seed: int, *shape: int) -> torch.Tensor:
    """-1 and 1 at random; a drawn byte gives eight."""
    generator = torch.Generator().manual_seed(seed)
    n = math.prod(shape)
    drawn = torch.randint(256, (-(-n // 8), 1), generator=generator, dtype=torch.uint8, device="cpu")
    bits = drawn.bitwise_right_shift(torch.arange(8, dtype=torch.uint8, device="cpu")).bitwise_and_(1)
    return bits.view(-1)[:n].view(shape).to(torch.int8).mul_(2).sub_(1)
