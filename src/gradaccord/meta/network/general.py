"""The network as a pure function of its parameters: the general one, and the check of a faster one."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeAlias

import torch
from torch import nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _NormBase

from gradaccord.core.temporary_weights import weights_moved
from gradaccord.meta.network.checkpoint_guard import recomputation_refused
from gradaccord.meta.network.conv4 import FastConv4, fast_network

Params: TypeAlias = Mapping[str, torch.Tensor]
TOLERANCE = 1e-8  # in float64, relative, of outputs, gradients and second derivatives
EXAMPLES = 8  # that the two networks are compared on

# Outputs for inputs [examples, ...] under the given parameters, by the model's names of them.
Network: TypeAlias = Callable[[Params, torch.Tensor], torch.Tensor]


def general_network(model: nn.Module) -> Network:
    """Any module, through `torch.func.functional_call`.

    Not for several threads: while it runs, the module's parameters are swapped.
    """

    tables = [m for m in model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag) and m.sparse]

    def network(params: Params, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor
        refused = recomputation_refused() if torch.is_grad_enabled() else nullcontext()
        weights_moved()  # since the last pass; and a cast made without a graph would have no gradient
        try:
            for table in tables:  # sparse gradients have no second derivatives
                table.sparse = False
            with refused:
                outputs = functional_call(model, dict(params), (inputs,))
        finally:
            for table in tables:
                table.sparse = True
            weights_moved()
        return outputs

    return network


def chosen_network(model: nn.Module, inputs: torch.Tensor) -> Network:
    """The fast network if this model has one and a comparison finds it equal; else the general one.

    Compared on a few of the inputs in float64: outputs, gradients, and a second derivative.
    """
    general = general_network(model)
    fast = fast_network(model)
    if fast is None:
        return general
    reason = _difference(general, fast, model, inputs)
    if reason is None:
        return fast
    warnings.warn(
        f"The fast network for {type(model).__name__} is not used, as {reason}: the general one is "
        "correct and slower; fast=False avoids this warning.",
        stacklevel=2,
    )
    return general


def _difference(general: Network, fast: Network, model: nn.Module, inputs: torch.Tensor) -> str | None:
    """Why the fast network cannot be used; None if it gives the same."""
    try:
        ours = _derivatives(fast, model, inputs[:EXAMPLES].double())
        true = _derivatives(general, model, inputs[:EXAMPLES].double())
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        return f"it could not be compared ({error})"
    for kind in ours:
        # Over all parameters together: one whose gradient is zero has only rounding for a size.
        whole = math.sqrt(sum(float(b.square().sum()) for b in true[kind]))
        off = math.sqrt(
            sum(float((a - b).square().sum()) for a, b in zip(ours[kind], true[kind], strict=True))
        )
        if not off <= TOLERANCE * max(whole, 1e-6):
            return f"its {kind} differ by {off / max(whole, 1e-300):.1g}"
    return None


def _derivatives(
    network: Network, model: nn.Module, inputs: torch.Tensor
) -> dict[str, list[torch.Tensor]]:
    """Outputs, the gradient of a smooth function of them, and its Hessian times that gradient."""
    params = {
        name: parameter.detach().double().requires_grad_()
        for name, parameter in model.named_parameters()
    }
    with torch.enable_grad():
        outputs = network(params, inputs)
        leaves = list(params.values())
        gradient: Sequence[torch.Tensor]
        if isinstance(network, FastConv4):
            gradient = network.gradient(
                params, list(params), inputs, inputs, _smooth, create_graph=True
            )
        else:
            gradient = torch.autograd.grad(_smooth(outputs, inputs), leaves, create_graph=True)
        slope = sum((g * g.detach()).sum() for g in gradient)
        product = torch.autograd.grad(slope, leaves, allow_unused=True)  # type: ignore[arg-type]
    found = [torch.zeros_like(w) if p is None else p for w, p in zip(leaves, product, strict=True)]
    return {
        "outputs": [outputs.detach()],
        "gradients": [g.detach() for g in gradient],
        "second derivatives": found,
    }


def _smooth(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A loss that needs no labels."""
    return outputs.logsumexp(-1).mean() + outputs.flatten(1)[:, 0].square().mean()


def uncompiled() -> AbstractContextManager[object]:
    """Run what torch.compile has made as it was written, for second derivatives; not for threads."""
    if "torch._dynamo" not in sys.modules:  # nothing is compiled, and its import takes a second
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance


@contextmanager
def buffers_kept(model: nn.Module, if_it_ends: bool = True) -> Iterator[None]:
    """Put the model's buffers back after the block; or only if it raises."""
    before = [
        (module._buffers, name, buffer, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    raised = True
    try:
        yield
        raised = False
    finally:
        if raised or if_it_ends:
            with torch.no_grad():
                for place, name, buffer, old in before:
                    place[name] = buffer.copy_(old)


@contextmanager
def batch_statistics(model: nn.Module, training: bool | None = None) -> Iterator[None]:
    """Let norms use each batch's own statistics and leave running ones alone.

    training: the mode of all other modules (False: no dropout); None leaves it as it is.
    """
    before = [(m, m.training, getattr(m, "track_running_stats", None)) for m in model.modules()]
    try:
        for module, _, _ in before:
            if isinstance(module, _NormBase):
                module.training = True
                module.track_running_stats = False
            elif training is not None:
                module.training = training
        yield
    finally:
        for module, mode, tracks in before:
            module.training = mode
            if isinstance(module, _NormBase):
                module.track_running_stats = bool(tracks)
