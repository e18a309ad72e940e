"""Arrays of numbers in MATLAB's files of version 5, read without compiled code.

A flipped byte can end the interpreter inside scipy's reader. The format: MathWorks, MAT-File Format,
"Level 5 MAT-Files".
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

import torch

from gradaccord.data.files.bad_files import reading

HEAD = 128  # bytes before the first element
MATRIX, COMPRESSED = 14, 15
# How the numbers of an element are stored.
TYPES = {
    1: torch.int8, 2: torch.uint8, 3: torch.int16, 4: torch.uint16, 5: torch.int32, 6: torch.uint32,
    7: torch.float32, 9: torch.float64, 12: torch.int64, 13: torch.uint64,
}  # fmt: skip
PEEK = 1024  # bytes of a variable that hold its name and its shape

Element = tuple[int, memoryview]  # type and content


def shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of every variable, without unpacking its numbers."""
    with reading(path):
        return {name: shape for name, shape, _ in map(_described, _variables(path, PEEK))}


def arrays(path: Path, names: Collection[str]) -> dict[str, torch.Tensor]:
    """The variables of these names."""
    found = {}
    with reading(path):
        for variable in _variables(path):
            name, shape, rest = _described(variable)
            if name in names:
                kind, content = next(rest)
                values = torch.frombuffer(bytearray(content), dtype=TYPES[kind])
                if math.prod(shape) != len(values):
                    raise ValueError(f"{len(values)} numbers for the shape {shape}")
                # MATLAB's first dimension is the one that runs fastest.
                found[name] = values.view(shape[::-1]).permute(*reversed(range(len(shape))))
    return found


def _variables(path: Path, limit: int = 0) -> Iterator[memoryview]:
    """The content of each variable. limit: unpack at most this many bytes of it; 0: all."""
    content = path.read_bytes()
    if content[126:HEAD] != b"IM":
        raise ValueError("not a MATLAB file of version 5")
    for kind, element in _elements(memoryview(content)[HEAD:]):
        if kind == COMPRESSED:
            unpacked = memoryview(zlib.decompressobj().decompress(element, limit))
            kind, element = next(_elements(unpacked, whole=not limit))
        if kind == MATRIX:
            yield element


def _described(variable: memoryview) -> tuple[str, tuple[int, ...], Iterator[Element]]:
    """Name and shape of a variable, and the elements after them."""
    elements = _elements(variable, whole=False)
    (_, _), (_, shape), (_, name) = next(elements), next(elements), next(elements)
    sizes = struct.unpack(f"<{len(shape) // 4}i", shape)
    if any(size < 0 for size in sizes):
        raise ValueError(f"the shape {sizes}")
    return bytes(name).decode("ascii"), sizes, elements


def _elements(content: memoryview, *, whole: bool = True) -> Iterator[Element]:
    """Elements one after another. whole: one that is cut off is an error."""
    place = 0
    while place < len(content):
        kind, size = struct.unpack_from("<II", content, place)
        start = place + 8
        if kind >> 16:  # four bytes at most stand in the tag itself
            kind, size, start = kind & 0xFFFF, kind >> 16, place + 4
        if whole and start + size > len(content):
            raise ValueError("it ends too early")
        yield kind, content[start : start + size]
        # A compressed element is followed by the next at once, any other at a multiple of 8.
        place = start + size if kind == COMPRESSED else start + size + (-(start + size) % 8)
