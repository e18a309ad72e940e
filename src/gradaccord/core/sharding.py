"""Sharded parameters (FSDP2's DTensors), recognised without importing what is not in use."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeGuard

import torch

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def is_sharded(tensor: torch.Tensor) -> TypeGuard[DTensor]:
    """Whether this is a DTensor; its module takes half a second to import, so it is asked for."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This process's part of a tensor."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def like(parameter: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """This process's part of a gradient, in the form of its parameter."""
    if not is_sharded(parameter):
        return part
    return type(parameter).from_local(
        part,
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )


def shard_groups(
    names: Sequence[str], tensors: Sequence[torch.Tensor]
) -> list[torch.distributed.ProcessGroup]:
    """The process groups over which dot products of shards must be summed; empty if none is sharded."""
    sharded = [t for t in tensors if is_sharded(t)]
    if not sharded:
        return []
    for name, tensor in zip(names, tensors, strict=True):
        if not is_sharded(tensor):
            raise ValueError(
                f"Parameter {name!r} is not sharded while others are, so its gradient is not "
                "reduced: call fully_shard on the root module too."
            )
    mesh, placements = sharded[0].device_mesh, sharded[0].placements
    return [mesh.get_group(i) for i, place in enumerate(placements) if place.is_shard()]
