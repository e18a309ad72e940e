"""SVHN's cropped digits as published: MATLAB files of 32x32 images."""

from __future__ import annotations

import zlib
from pathlib import Path

import torch


def read_svhn(path: str | Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Images, uint8 [N, 3, 32, 32], and digits, int64 [N]; the file's class 10 is the digit 0."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        content = loadmat(str(path), variable_names=("X", "y"))
        images, labels = torch.from_numpy(content["X"]), torch.from_numpy(content["y"])
    except (OSError, ValueError, KeyError, TypeError, IndexError, NotImplementedError, MatReadError,
            zlib.error, EOFError) as error:  # fmt: skip
        reason = " ".join(str(error).split())[:120]
        raise ValueError(
            f"{path} is not a file of SVHN's cropped digits ({reason}): fetch it again."
        ) from error
    if images.dim() != 4 or images.shape[2] != 3 or images.shape[3] != labels.numel():
        raise ValueError(
            f"{path} has images of shape {tuple(images.shape)} for {labels.numel()} labels: expected "
            "[32, 32, 3, N] for N."
        )
    return images.permute(3, 2, 0, 1).contiguous(), labels.flatten().long() % 10
