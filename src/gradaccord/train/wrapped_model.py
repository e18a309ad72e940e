"""The model of a run: wrapped by Accelerate, compiled or checkpointed, its weights whole or sharded."""

from __future__ import annotations

import copy
import os
from types import SimpleNamespace
from typing import Any

from torch import nn

from gradaccord.models.trunks.execution import compile_trunk
from gradaccord.models.trunks.lora import has_lora
from gradaccord.train.config import Config
from gradaccord.train.problem import Problem
from gradaccord.train.row_steps import steps_rows


def wrap(accelerator: Any, model: nn.Module) -> nn.Module:
    """The model as Accelerate wraps it. Under FSDP2 its own `prepare` would also want an optimiser."""
    if not is_sharded_by(accelerator):
        wrapped: nn.Module = accelerator.prepare_model(model)
        return wrapped
    if has_lora(model):
        raise ValueError(
            "`model.lora` is given, and the weights are sharded (FSDP2), which is not supported: leave "
            "it out, or start the processes without FSDP2."
        )
    from accelerate.utils.fsdp_utils import fsdp2_prepare_model

    by = accelerator if accelerator.is_fsdp2 else _WithPlugin(accelerator)
    sharded: nn.Module = fsdp2_prepare_model(by, model)
    accelerator._models.append(sharded)  # for its clipping
    return sharded


def unsharded(accelerator: Any, model: nn.Module, skeleton: nn.Module) -> nn.Module:
    """The trained model with whole weights (on the first process); called by all processes.

    skeleton: what `skeleton_of` gave before the model was sharded; it is filled.
    """
    if not is_sharded_by(accelerator):
        plain: nn.Module = accelerator.unwrap_model(model)
        return plain
    weights, _ = weights_of(accelerator, model, None)
    if accelerator.is_main_process:
        skeleton.to_empty(device="cpu").load_state_dict(weights)
    return skeleton


def skeleton_of(accelerator: Any, model: nn.Module) -> nn.Module:
    """A copy without weights where the model is about to be sharded; else the model itself."""
    return copy.deepcopy(model).to("meta") if is_sharded_by(accelerator) else model


def weights_of(accelerator: Any, model: nn.Module, optimizer: Any) -> tuple[dict[str, Any], Any]:
    """The whole weights and the optimiser's state; if sharded, only in the first process."""
    if is_sharded_by(accelerator):
        from torch.distributed.checkpoint.state_dict import (
            StateDictOptions,
            get_model_state_dict,
            get_optimizer_state_dict,
        )

        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        weights = get_model_state_dict(model, options=options)
        inner = getattr(optimizer, "optimizer", optimizer)
        if inner is None or not inner.state:  # torch would fill it by a step, and count that
            return weights, None
        return weights, get_optimizer_state_dict(model, inner, options=options)
    plain = accelerator.unwrap_model(model)
    return plain.state_dict(), None if optimizer is None else optimizer.state_dict()


def load_weights(accelerator: Any, model: nn.Module, optimizer: Any, weights: Any, state: Any) -> None:
    """Put back what `weights_of` gave in the first process; every process is given it whole."""
    if is_sharded_by(accelerator):
        from torch.distributed.checkpoint.state_dict import (
            StateDictOptions,
            set_model_state_dict,
            set_optimizer_state_dict,
        )

        options = StateDictOptions(full_state_dict=True)
        set_model_state_dict(model, weights, options=options)
        inner = getattr(optimizer, "optimizer", optimizer)
        if inner is not None and state and any(state["state"].values()):  # plain SGD has none
            set_optimizer_state_dict(model, inner, state, options=options)
        return
    accelerator.unwrap_model(model).load_state_dict(weights)
    if optimizer is not None:
        optimizer.load_state_dict(state)


def enable_checkpointing(config: Config, problem: Problem) -> None:
    """Apply `train.checkpointing`, before the model is wrapped."""
    if not config.train.checkpointing:
        return
    for term in config.regularize:
        if "module" in term.options:
            raise ValueError(
                f"`train.checkpointing` is on, and `regularize` {term.name} perturbs the module "
                f"{term.options['module']!r}, which would be computed again without it: leave `module` "
                "out, or set train.checkpointing to false."
            )
    problem.model.trunk.checkpoint()


def enable_row_steps(config: Config, problem: Problem, accelerator: Any) -> None:
    """Make the gradients of large tables sparse if the optimiser can use that, before wrapping."""
    train, trunk = config.train, problem.model.trunk
    fits = steps_rows(train.optimizer.name, train.optimizer.options)
    if fits and not train.compile and not is_sharded_by(accelerator):
        for name in trunk.tables:
            table: Any = trunk.get_submodule(name)
            table.sparse = True


def enable_compilation(config: Config, problem: Problem, accelerator: Any) -> None:
    """Apply `train.compile`, after the model is wrapped, moved to its device and set to training."""
    if not config.train.compile:
        return
    if config.regularize:
        raise ValueError(
            f"`train.compile` is on, and `regularize` {config.regularize[0].name} reaches into the "
            "trunk by hooks, which a compiled one does not run: set train.compile to false."
        )
    if is_sharded_by(accelerator):
        raise ValueError(
            "`train.compile` is on, and the weights are sharded (FSDP2), which is not supported: set "
            "train.compile to false."
        )
    encoded = problem.prepared[problem.trained[0]].encoded["train"]
    rows = range(min(len(encoded), config.train.batch_size))
    batch = {k: v.to(accelerator.device) for k, v in encoded.batch(rows).items()}
    with accelerator.autocast():
        compile_trunk(problem.model.trunk, batch)


def is_sharded_by(accelerator: Any) -> bool:
    """Whether to shard the weights: by Accelerate, or by us where it ignores the request (CPU)."""
    if getattr(accelerator, "is_fsdp2", False):
        return True
    return fsdp_asked() and accelerator.device.type == "cpu" and accelerator.num_processes > 1


def fsdp_asked() -> bool:
    """Whether `accelerate launch --use_fsdp` started this process; refuses FSDP1."""
    if os.environ.get("ACCELERATE_USE_FSDP", "false").lower() != "true":
        return False
    version = os.environ.get("FSDP_VERSION", "1")
    if version != "2":
        raise ValueError(
            f"accelerate launch was given --use_fsdp with --fsdp_version {version}, which does not "
            "expose the gradients of single tasks: give --fsdp_version 2."
        )
    return True


class _WithPlugin:
    """An Accelerator on a CPU with the plugin that it was asked for, and takes up on a GPU only."""

    def __init__(self, accelerator: Any) -> None:
        from accelerate.utils import FullyShardedDataParallelPlugin

        plugin = FullyShardedDataParallelPlugin()  # as `accelerate launch` describes it
        if accelerator.mixed_precision != "no":
            plugin.set_mixed_precision(accelerator.mixed_precision)
        self.state = SimpleNamespace(fsdp_plugin=plugin)
        self.accelerator = accelerator

    def __getattr__(self, name: str) -> Any:
        return getattr(self.accelerator, name)
