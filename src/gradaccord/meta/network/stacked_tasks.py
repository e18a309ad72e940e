"""Tasks in one pass of Conv-4: stacked [T, ...] outside, and side by side as channels inside."""

from __future__ import annotations

import torch

from gradaccord.meta.network.conv4_block import Parameters

IMAGES = "images"  # stands for the inputs among the parameters' names
HEAD = ("head.weight", "head.bias")
Gradients = dict[str, torch.Tensor]


def laid(weight: torch.Tensor, tasks: int | None) -> torch.Tensor:
    """The weight in the memory layout of its gradient by `FastConv4`, for each of stacked tasks."""
    if weight.dim() == 4:
        weight = weight.contiguous(memory_format=torch.channels_last)
    if tasks is None:
        return weight
    weight = weight.expand(tasks, *weight.shape)
    return weight.movedim(2, 4).contiguous().movedim(4, 2) if weight.dim() == 5 else weight.contiguous()


def tasks_in(images: torch.Tensor) -> int | None:
    """How many tasks are stacked [T, n, C, H, W]; None for the images of one."""
    return len(images) if images.dim() == 5 else None


def beside(tensors: Parameters, tasks: int | None) -> Parameters:
    """Images, and parameters of blocks, of stacked tasks side by side: as channels of one network."""
    if tasks is None:
        return tensors
    found = {}
    for name, tensor in tensors.items():
        if name == IMAGES:  # [T, n, C, H, W] to [n, T C, H, W], in channels-last memory
            tensor = tensor.permute(1, 3, 4, 0, 2).flatten(3).permute(0, 3, 1, 2)
        elif tensor.dim() == 5:  # [T, out, in, 3, 3] to [T out, in, 3, 3], likewise
            tensor = tensor.permute(0, 1, 3, 4, 2).flatten(0, 1).permute(0, 3, 1, 2)
        elif name not in HEAD:
            tensor = tensor.flatten(0, 1)
        found[name] = tensor
    return found


def apart(tensors: Gradients, tasks: int | None) -> Gradients:
    """Stacked again: the opposite of `beside`."""
    if tasks is None:
        return tensors
    return {
        name: split(tensor, 1, tasks).transpose(0, 1) if name == IMAGES else split(tensor, 0, tasks)
        for name, tensor in tensors.items()
    }


def split(tensor: torch.Tensor, dim: int, tasks: int) -> torch.Tensor:
    """A dimension T n as two, T and n."""
    return tensor.view(*tensor.shape[:dim], tasks, -1, *tensor.shape[dim + 1 :])
