"""Weights and optimiser state as a checkpoint keeps them, whole also where they are sharded."""

from __future__ import annotations

from typing import Any

from torch import nn


def weights_of(accelerator: Any, model: nn.Module, optimizer: Any) -> tuple[dict[str, Any], Any]:
    """The whole weights, and the optimiser's state, also where they are sharded."""
    if _is_sharded(accelerator):
        from torch.distributed.checkpoint.state_dict import (
            StateDictOptions,
            get_model_state_dict,
            get_optimizer_state_dict,
        )

        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        weights = get_model_state_dict(model, options=options)
        inner = getattr(optimizer, "optimizer", optimizer)
        state = None if inner is None else get_optimizer_state_dict(model, inner, options=options)
        return weights, state
    plain = accelerator.unwrap_model(model)
    return plain.state_dict(), None if optimizer is None else optimizer.state_dict()


def load_weights(accelerator: Any, model: nn.Module, optimizer: Any, weights: Any, state: Any) -> None:
    """Put back what `weights_of` gave."""
    if _is_sharded(accelerator):
        from torch.distributed.checkpoint.state_dict import (
            StateDictOptions,
            set_model_state_dict,
            set_optimizer_state_dict,
        )

        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        set_model_state_dict(model, weights, options=options)
        inner = getattr(optimizer, "optimizer", optimizer)
        if inner is not None:
            set_optimizer_state_dict(model, inner, state, options=options)
        return
    accelerator.unwrap_model(model).load_state_dict(weights)
    if optimizer is not None:
        optimizer.load_state_dict(state)


def _is_sharded(accelerator: Any) -> bool:
    return bool(getattr(accelerator, "is_fsdp2", False))
