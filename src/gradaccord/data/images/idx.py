"""The idx format of MNIST and Fashion-MNIST, plain or gzipped.

images = read_idx("train-images-idx3-ubyte.gz")      # uint8 [60000, 28, 28]
"""

from __future__ import annotations

import gzip
import math
import struct
from pathlib import Path

import torch

from gradaccord.data.files.bad_files import reading

# The third byte of the file names the type; values of more than one byte are big-endian.
TYPES = {
    0x08: torch.uint8,
    0x09: torch.int8,
    0x0B: torch.int16,
    0x0C: torch.int32,
    0x0D: torch.float32,
    0x0E: torch.float64,
}


# How the files of each split begin.
FILES = {"train": "train", "test": "t10k"}


def read_idx_splits(folder: Path) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Images, uint8 [N, 1, height, width], and labels, int64 [N], of each split in a folder."""
    splits = {}
    for split, start in FILES.items():
        images, labels = (sorted(folder.glob(f"{start}*{what}*")) for what in ("images", "labels"))
        if images and labels:
            splits[split] = read_idx(images[0]).unsqueeze(1), read_idx(labels[0]).long()
    if not splits:
        raise ValueError(
            f"{folder} holds no idx files: expected train-images-idx3-ubyte and "
            "train-labels-idx1-ubyte, plain or gzipped."
        )
    return splits


def read_idx(path: str | Path) -> torch.Tensor:
    """The tensor that an idx file holds."""
    path = Path(path)
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        with reading(path):
            content = gzip.decompress(content)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in TYPES or not content[3]:
        raise ValueError(f"{path} is not an idx file: it begins with {content[:4]!r}.")
    dtype, dimensions = TYPES[content[2]], content[3]
    start = 4 + 4 * dimensions
    shape = struct.unpack_from(f">{dimensions}I", content, 4) if len(content) >= start else ()
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        raise ValueError(
            f"{path} is {len(content)} bytes long where its header says {expected}: fetch it again."
        )
    # Bytes first, so that a big-endian value is turned around on any machine.
    values = torch.frombuffer(bytearray(content[start:]) or bytearray(1), dtype=torch.uint8)
    if dtype.itemsize > 1:
        values = values.view(-1, dtype.itemsize).flip(1).contiguous().view(-1).view(dtype)
    return values.view(dtype)[: math.prod(shape)].view(shape)
