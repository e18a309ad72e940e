"""SVHN's cropped digits as published: MATLAB files of 32x32 images."""

from __future__ import annotations

from pathlib import Path

import torch

from gradaccord.data.images import matlab


def read_svhn(path: str | Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Images, uint8 [N, 3, 32, 32], and digits, int64 [N]; the file's class 10 is the digit 0."""
    found = matlab.arrays(Path(path), ("X", "y"))
    if len(found) != 2 or found["X"].dtype != torch.uint8:
        raise ValueError(
            f"{path} is not a file of SVHN's cropped digits (X of bytes, and y): fetch it again."
        )
    images, labels = found["X"], found["y"]
    if images.dim() != 4 or images.shape[2] != 3 or images.shape[3] != labels.numel():
        raise ValueError(
            f"{path} has images of shape {tuple(images.shape)} for {labels.numel()} labels: expected "
            "[32, 32, 3, N] for N."
        )
    return images.permute(3, 2, 0, 1).contiguous(), labels.flatten().long() % 10


def count_svhn(path: Path) -> int:
    """How many images there are, without unpacking them."""
    shape = matlab.shapes(path).get("y", ())
    if not shape:
        raise ValueError(f"{path} holds no variable y: fetch SVHN's cropped digits again.")
    return shape[0]
