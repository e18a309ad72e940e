"""How a trunk is computed, not what: blocks that recompute their activations, a compiled forward."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from textwrap import shorten
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from gradaccord.core.replay import RandomState
from gradaccord.core.temporary_weights import buffers_of, preserved
from gradaccord.data.encoded import Batch
from gradaccord.models.trunks.trunk import Trunk

BACKEND: str | Callable[..., Any] = "inductor"  # torch.compile's own choice


def compile_trunk(trunk: Trunk, batch: Batch) -> None:
    """torch.compile a trunk in place, for batches of any length: names and saved files stay the same.

    It is tried on a batch, forward and backward, and refused here if that fails; weights, running
    statistics and random numbers are as before. Hooks set on modules inside it later do not run.
    """
    weights = [p for p in trunk.parameters() if p.requires_grad]
    random = RandomState.capture(weights)
    with random.replayed(), preserved(buffers_of(trunk)):
        try:
            trunk.compile(dynamic=True, backend=BACKEND)
            found = trunk(batch).tokens.sum()
            if weights:
                torch.autograd.grad(found, weights, allow_unused=True)
        except Exception as error:
            trunk._compiled_call_impl = None
            reason = shorten(f"{type(error).__name__}: {error}", 160, placeholder="...")
            raise ValueError(
                f"A {type(trunk).__name__} cannot be compiled here ({reason}): set train.compile "
                "to false."
            ) from error


def checkpoint_model(model: Any) -> None:
    """Turn checkpointing of a Hugging Face model on, with use_reentrant=False."""
    try:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    except ValueError as error:
        raise ValueError(
            f"A {type(model).__name__} cannot recompute its activations: set train.checkpointing to "
            "false."
        ) from error


def checkpoint_blocks(blocks: Iterable[nn.Module]) -> None:
    """Keep of each block what goes in; what is inside is computed again in the backward pass."""
    for block in blocks:
        block.forward = partial(_recomputed, block, block.forward)


def _recomputed(
    block: nn.Module, forward: Callable[..., Any], *inputs: Any, **named: Any
) -> torch.Tensor:
    if not torch.is_grad_enabled():
        output: torch.Tensor = forward(*inputs, **named)
        return output
    norms = [m for m in block.modules() if isinstance(m, _BatchNorm)]
    # Only where there is something to do: torch.compile refuses a `context_fn`.
    options: dict[str, Any] = {"context_fn": partial(_contexts, norms)} if norms else {}
    output = checkpoint(forward, *inputs, use_reentrant=False, **options, **named)
    return output


def _contexts(
    norms: list[_BatchNorm],
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """The contexts of the forward pass and of its repetition."""
    return nullcontext(), _statistics_kept(norms)


@contextmanager
def _statistics_kept(norms: list[_BatchNorm]) -> Iterator[None]:
    """The batch was counted in the running statistics when it was first seen."""
    before = [(norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm in norms:
        norm.momentum, norm.num_batches_tracked = 0.0, None
    try:
        yield
    finally:
        for norm, (momentum, count) in zip(norms, before, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, count
