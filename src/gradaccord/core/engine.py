"""Engines: the only place that knows how a backward pass is run and across which processes."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gradaccord.core.parameters import Model
from gradaccord.core.sharding import is_sharded


class Engine:
    """Plain torch: `loss.backward()`, alone, under DDP or under FSDP2 (`fully_shard`).

    The other engines change how the backward pass is started; how gradients are summed over processes
    is read from the model.
    """

    def __init__(self, model: Model) -> None:
        modules = list(model.modules()) if isinstance(model, nn.Module) else []
        self.model = model if isinstance(model, nn.Module) else None
        self.replicas = [m for m in modules if isinstance(m, DistributedDataParallel)]
        self.scaler: Any = None  # the gradient scaler, if there is one
        _refuse_fsdp1(modules)
        if not self.replicas:
            _warn_if_not_alone(model)

    def backward(self, loss: torch.Tensor, retain_graph: bool = False) -> None:
        """Add the gradient of `loss`, times `scale()`, to every `.grad`."""
        loss.backward(retain_graph=retain_graph)  # type: ignore[no-untyped-call]

    def scale(self) -> float:
        """The loss scale (float16): `.grad` is the gradient times this."""
        return 1.0 if self.scaler is None else float(self.scaler.get_scale())

    @property
    def skips_bad_steps(self) -> bool:
        """Whether a gradient scaler skips steps with inf or NaN."""
        return self.scaler is not None and bool(self.scaler.is_enabled())

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Keep DDP from communicating at all: forward and backward run inside.

        DDP's own `no_sync` still sends the gradients of a static graph, and buffers in the first
        forward pass, where the others would wait for a process that failed before it.
        """
        with ExitStack() as stack:
            for replica in self.replicas:
                stack.enter_context(replica.no_sync())
                replica.require_forward_param_sync = False
                stack.enter_context(_without_static_graph(replica))
            yield

    @property
    def group(self) -> torch.distributed.ProcessGroup | None:
        """The processes over which each task's gradient must be summed; None when alone."""
        if not self.replicas:
            return None
        group: torch.distributed.ProcessGroup = self.replicas[0].process_group
        return group if group.size() > 1 else None

    def sync_buffers(self) -> None:
        """Give every process the running statistics of the first, as DDP does outside `no_sync`."""
        for replica in self.replicas:
            if replica.broadcast_buffers and replica.modules_buffers and self.group is not None:
                replica._sync_buffers()  # type: ignore[no-untyped-call]


class ScalerEngine(Engine):
    """Plain torch with a `torch.amp.GradScaler`; `scaler.step` and `update` stay yours."""

    def __init__(self, model: Model, scaler: torch.amp.GradScaler) -> None:
        super().__init__(model)
        self.scaler = scaler

    def backward(self, loss: torch.Tensor, retain_graph: bool = False) -> None:
        super().backward(self.scaler.scale(loss), retain_graph)


class AccelerateEngine(Engine):
    """Hugging Face Accelerate: `accelerator.backward`, which also serves HF Trainer and TRL."""

    def __init__(self, model: Model, accelerator: Any) -> None:
        super().__init__(model)
        kind = str(getattr(accelerator.distributed_type, "value", accelerator.distributed_type))
        if kind.upper() in ("DEEPSPEED", "MEGATRON_LM", "FSDP") and not _is_fsdp2(model, kind):
            raise ValueError(
                f"`engine` is an Accelerator with distributed_type {kind}, which owns the gradients "
                "and does not expose them: use DDP, FSDP2 or a single process."
            )
        self.accelerator = accelerator
        self.scaler = accelerator.scaler

    def backward(self, loss: torch.Tensor, retain_graph: bool = False) -> None:
        # Accelerate divides by its accumulation steps; micro-batches are normalised here instead.
        steps = self.accelerator.gradient_accumulation_steps
        loss = loss * steps if steps != 1 else loss
        self.accelerator.backward(loss, retain_graph=retain_graph)


class FabricEngine(Engine):
    """Lightning Fabric: `fabric.backward`."""

    def __init__(self, model: Model, fabric: Any) -> None:
        super().__init__(model)
        strategy = type(fabric.strategy).__name__
        if "DeepSpeed" in strategy:
            raise ValueError(
                f"`engine` is a Fabric with {strategy}, which owns the gradients and does not "
                "expose them: use DDP, FSDP2 or a single process."
            )
        self.fabric = fabric
        self.scaler = getattr(fabric.strategy.precision, "scaler", None)

    def backward(self, loss: torch.Tensor, retain_graph: bool = False) -> None:
        self.fabric.backward(loss, retain_graph=retain_graph)


def as_engine(model: Model, engine: Any = None) -> Engine:
    """Make an engine of what the user has: nothing, a GradScaler, an Accelerator or a Fabric."""
    if engine is None:
        return Engine(model)
    if isinstance(engine, Engine):
        return engine
    if isinstance(engine, torch.amp.GradScaler):
        return ScalerEngine(model, engine)
    accelerate = sys.modules.get("accelerate")
    if accelerate is not None and isinstance(engine, accelerate.Accelerator):
        return AccelerateEngine(model, engine)
    if hasattr(engine, "no_backward_sync") and hasattr(engine, "backward"):
        return FabricEngine(model, engine)
    raise TypeError(
        "`engine` must be None, a torch.amp.GradScaler, an accelerate.Accelerator, a Fabric or a "
        f"gradaccord Engine, got {type(engine).__name__}."
    )


def _refuse_fsdp1(modules: Sequence[nn.Module]) -> None:
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is not None and any(isinstance(m, fsdp.FullyShardedDataParallel) for m in modules):
        raise ValueError(
            "`model` is wrapped in FullyShardedDataParallel, which does not expose the gradients "
            "of single tasks: use its successor, torch.distributed.fsdp.fully_shard."
        )


def _warn_if_not_alone(model: Model) -> None:
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return
    tensors = model.parameters() if isinstance(model, nn.Module) else [t for _, t in model]
    if distributed.get_world_size() > 1 and not any(is_sharded(t) for t in tensors):
        warnings.warn(
            f"{distributed.get_world_size()} processes run, and `model` is neither wrapped in DDP nor "
            "sharded by fully_shard: gradients are not joined over processes. Give the module as it "
            "is called in the losses (for parameters alone: engine=gradaccord.Engine(ddp_model)).",
            stacklevel=2,
        )


@contextmanager
def _without_static_graph(replica: DistributedDataParallel) -> Iterator[None]:
    """Hide from DDP that its first backward pass over a static graph is still to come."""
    flag = "_static_graph_delay_allreduce_enqueued"
    if not replica.static_graph:
        yield
        return
    before = getattr(replica, flag)
    setattr(replica, flag, True)
    try:
        yield
    finally:
        setattr(replica, flag, before)


def _is_fsdp2(model: Model, kind: str) -> bool:
    return (
        kind.upper() == "FSDP"
        and isinstance(model, nn.Module)
        and any(is_sharded(p) for p in model.parameters())
    )
