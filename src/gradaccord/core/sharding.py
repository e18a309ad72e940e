"""Sharded parameters (FSDP2's DTensors), recognised without importing what is not in use."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import nn

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.tensor import DTensor


def is_sharded(tensor: torch.Tensor) -> TypeGuard[DTensor]:
    """Whether this is a DTensor. Its module takes half a second to import, so it is only looked up."""
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


def reshard(model: nn.Module) -> None:
    """Shard the outermost weights again: FSDP2 leaves them gathered after a forward pass alone."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is None:
        return
    for module in model.modules():
        if isinstance(module, fsdp.FSDPModule):
            module.reshard()


@dataclass(frozen=True)
class Shards:
    """Over which processes `fully_shard` has spread the model."""

    parts: tuple[ProcessGroup, ...]  # hold different parts of a gradient: dot products are summed
    copies: tuple[ProcessGroup, ...]  # hold the same part (hybrid sharding)
    device: torch.device  # through which these groups communicate

    @property
    def groups(self) -> tuple[ProcessGroup, ...]:
        """All of them: each process brings its own share of a batch."""
        return self.parts + self.copies


def shards_of(names: Sequence[str], tensors: Sequence[torch.Tensor]) -> Shards | None:
    """How the trainable parameters are sharded; None if they are not."""
    trained = [
        (name, tensor) for name, tensor in zip(names, tensors, strict=True) if tensor.requires_grad
    ]
    sharded = [tensor for _, tensor in trained if is_sharded(tensor)]
    if not sharded:
        return None
    mesh = sharded[0].device_mesh
    cut = [place.is_shard() for place in sharded[0].placements]
    for name, tensor in trained:
        if not is_sharded(tensor):
            raise ValueError(
                f"Parameter {name!r} is not sharded while others are, so its gradient is not "
                "reduced: call fully_shard on the root module too."
            )
        if (
            tensor.device_mesh != mesh
            or [p.is_shard() for p in tensor.placements] != cut
            or sum(cut) != 1
        ):
            raise ValueError(
                f"Parameter {name!r} is placed as {tensor.placements} on {tensor.device_mesh}: one "
                "mesh for all of fully_shard, plain or hybrid, without tensor parallelism, is "
                "supported."
            )
    return Shards(
        parts=tuple(mesh.get_group(i) for i, is_cut in enumerate(cut) if is_cut),
        copies=tuple(mesh.get_group(i) for i, is_cut in enumerate(cut) if not is_cut),
        device=torch.device(mesh.device_type),
    )
