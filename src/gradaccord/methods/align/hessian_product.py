"""The product of a batch's Hessian with a vector: exact by double backward, or by differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.module import register_module_forward_pre_hook

from gradaccord.core.bank import Bank, Gradient, Rows, compact, put, rows_of_sparse, take
from gradaccord.core.engine import Engine
from gradaccord.core.losses import Loss, LossFn
from gradaccord.core.sharding import like
from gradaccord.core.task_gradients import TaskGradients
from gradaccord.core.temporary_weights import buffers_of, displaced, preserved
from gradaccord.methods.align.paired_sum import Batch
from gradaccord.methods.align.vectors import Vector, add_, none_like, scale_, vector_of

Direction = Callable[[Vector], tuple[Vector, float]]  # from the batch's own gradient: vector, factor

KINKED = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.RReLU, nn.Threshold, nn.Hardtanh, nn.Hardsigmoid,
    nn.Hardswish, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d,
)  # fmt: skip


class NoDoubleBackward(Exception):  # noqa: N818
    """Something on the way from the loss to the weights can be differentiated only once.

    culprit: what it is, where that is known at once.
    """

    def __init__(self, message: str, culprit: str | None = None) -> None:
        super().__init__(message)
        self.culprit = culprit


class _TwiceBackward(Engine):
    """An engine that also differentiates the gradient: `.grad` gets G, `product` gets H v."""

    def __init__(self, gradients: TaskGradients, direction: Direction, unproven: bool) -> None:
        engine = gradients.engine
        self.model, self.replicas = engine.model, engine.replicas
        self.inner = engine
        self.tensors = gradients.parameters.tensors
        self.direction = direction
        self.unproven = unproven  # no exact product has been seen to work yet
        self.product: Vector = [None] * len(self.tensors)

    def backward(self, loss: torch.Tensor, retain_graph: bool = False) -> None:
        trained = [i for i, p in enumerate(self.tensors) if p.requires_grad]
        weights = [self.tensors[i] for i in trained]
        # The factor of one, itself to be differentiated, makes what can be differentiated only once
        # say so: without it, a loss with a gradient of its own would pass for a constant.
        one = torch.ones((), dtype=loss.dtype, device=loss.device, requires_grad=True)
        scaled = loss * one * self.inner.scale()
        _refuse_checkpoints(scaled)
        try:
            found = torch.autograd.grad(scaled, weights, create_graph=True, allow_unused=True)
            gradient: list[torch.Tensor | None] = [None] * len(self.tensors)
            for i, g in zip(trained, found, strict=True):
                gradient[i] = g
            vector, factor = self.direction([None if g is None else _stored(g) for g in gradient])
            terms = [
                _dot(g, v)
                for g, v in zip(gradient, vector, strict=True)
                if g is not None and v is not None and g.requires_grad
            ]
            if terms:
                dot = torch.stack([t.double() for t in terms]).sum() * factor
                if self.unproven:
                    _refuse_errors(dot)
                second = torch.autograd.grad(dot, weights, allow_unused=True)
                piece: Vector = [None] * len(self.tensors)
                for i, h in zip(trained, second, strict=True):
                    piece[i] = h
                add_(self.product, piece)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, NotImplementedError) as error:
            raise NoDoubleBackward(str(error)) from error
        held: set[int] = set()
        for p, new in zip(self.tensors, gradient, strict=True):
            if new is None:
                continue
            if p.grad is not None:
                p.grad.add_(new.detach())
            elif new.is_sparse:
                p.grad = new.detach()
            else:
                # autograd may give two weights one tensor, or one number seen many times
                memory = new.untyped_storage().data_ptr()
                alone = memory not in held and new.is_contiguous()
                p.grad = new.detach() if alone else new.detach().clone().contiguous()
                held.add(memory)


def _stored(gradient: torch.Tensor) -> Gradient:
    return rows_of_sparse(gradient.detach()) if gradient.is_sparse else gradient.detach()


def _dot(gradient: torch.Tensor, vector: Gradient) -> torch.Tensor:
    """The real inner product, which can be differentiated: complex numbers count as pairs of reals."""
    values = vector.values if isinstance(vector, Rows) else vector
    if isinstance(vector, Rows):
        gradient = gradient.index_select(0, vector.index)
    product = (gradient * values.conj()).sum()
    return product.real if product.is_complex() else product


def _refuse_errors(output: torch.Tensor) -> None:
    """Raise if the graph holds one of autograd's error nodes, which it would silently pass by.

    They mark functions that can be differentiated once, and lie on no way to the weights.
    """
    if any(name == "torch::autograd::Error" for name in _names(output)):
        raise RuntimeError("a function that can be differentiated only once")


def _refuse_checkpoints(output: torch.Tensor) -> None:
    """Raise if the graph holds a reentrant activation checkpoint.

    The weights within are no part of the graph: a gradient of named weights silently passes by them.
    """
    if any("Checkpoint" in name for name in _names(output)):
        raise NoDoubleBackward(
            "Reentrant activation checkpointing hides the weights within from an exact product: use "
            "use_reentrant=False, or mode='difference'.",
            "Reentrant activation checkpointing (use_reentrant=True, where False is the remedy)",
        )


def _names(output: torch.Tensor) -> Iterator[str]:
    """The names of all nodes of a graph."""
    todo, seen = [output.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        yield node.name()
        seen.add(node)
        todo += [following for following, _ in node.next_functions]


def exact(
    gradients: TaskGradients,
    batch: Batch,
    direction: Direction,
    again: bool,
    unproven: bool = False,
) -> Vector:
    """H v by double backward, in the batch's stored units; its gradient comes with it.

    again: the batch has been run already, and is now run a second time with the same masks.
    unproven: look through the graph for what cannot be differentiated twice (a few milliseconds).
    """
    losses = {batch.name: list(batch.calls or ())}
    replay: Any = nullcontext()
    if again:
        losses, random = batch.again()
        replay = random.replayed()
    engine = _TwiceBackward(gradients, direction, unproven)
    # Fused attention can be differentiated once; the plain kernel twice.
    with replay, sdpa_kernel(SDPBackend.MATH), preserved(_buffers(gradients) if again else []):
        outcome = gradients.of_this_process(losses, engine)
    if isinstance(outcome, Bank):
        dense = [g.dense() if isinstance(g, Rows) else g for g in engine.product]
        product = compact(gradients.parameters, dense)
        twin = replace(outcome, gradients=[product], factors=list(outcome.factors))
        bank, twin = gradients.joined(outcome), gradients.joined(twin)
    else:
        bank = twin = gradients.joined(outcome)  # raises on every process
    loss = gradients.checked_losses(bank)[0]
    if not again:
        batch.loss, batch.factor = loss, bank.factors[0]
        batch.gradient = vector_of(bank, batch.name)
    return vector_of(twin, batch.name)


def difference(
    gradients: TaskGradients,
    batch: Batch,
    vector: Vector,
    factor: float,
    step: float,
    centred: bool,
    at_last: Callable[[], None] = lambda: None,
) -> Vector:
    """H v times the step, by differences, in the batch's stored units; its gradient is used up.

    One-sided: G(theta) - G(theta - step v); centred: (G(theta + step v) - G(theta - step v)) / 2. The
    vector is `factor` times what is given. `at_last` is called when it is no longer needed.
    """
    ahead = batch.gradient
    if centred:
        ahead = displaced_gradient(gradients, batch, vector, step * factor)

    def less() -> Vector:
        at_last()
        return ahead

    result = displaced_gradient(gradients, batch, vector, -step * factor, less)
    if centred:
        scale_(result, 0.5)
    return result


def displaced_gradient(
    gradients: TaskGradients,
    batch: Batch,
    vector: Vector,
    step: float,
    less: Callable[[], Vector] | None = None,
) -> Vector:
    """The batch's gradient at theta + step * vector, with the masks of its first run.

    With `less`, what it gives (once the weights stand there) minus that gradient, in its memory: the
    negative loss is run backward, and autograd accumulates onto what is there.
    """
    losses, random = batch.again()
    parameters, extras = gradients.parameters, gradients.extras
    with random.replayed(), _moved(gradients, vector, step):
        first = none_like(parameters.tensors)
        if less is not None:
            first = less()
            losses = {
                name: [partial(_negative, call) for call in calls] for name, calls in losses.items()
            }
        if gradients.engine.group is None:
            pairs = zip(parameters.tensors, first, strict=True)
            put(parameters, [like(p, g) if isinstance(g, torch.Tensor) else None for p, g in pairs])
            first = [g if isinstance(g, Rows) else None for g in first]
        try:
            bank, _ = gradients.of(losses)
        finally:
            take(parameters)
    gradients.checked_losses(bank)
    gradients.extras = extras  # those of the loss as the user gave it
    result = vector_of(bank, batch.name)
    add_(result, first)
    return result


def _negative(call: LossFn) -> Loss:
    loss = call()
    return (-loss[0], loss[1]) if isinstance(loss, tuple) else -loss


def _moved(gradients: TaskGradients, vector: Vector, step: float) -> AbstractContextManager[None]:
    parameters, buffers = gradients.parameters.tensors, _buffers(gradients)
    return displaced(parameters, vector, step, buffers, gradients.scratch)


def _buffers(gradients: TaskGradients) -> list[torch.Tensor]:
    return buffers_of(gradients.engine.model)


@contextmanager
def autocast_seen() -> Iterator[list[bool]]:
    """Whether any module is called under autocast in a block: the list is then not empty."""
    seen: list[bool] = []

    def look(module: nn.Module, args: Any) -> None:
        devices = {a.device.type for a in args if isinstance(a, torch.Tensor)}
        if any(torch.is_autocast_enabled(device) for device in devices):
            seen.append(True)

    handle = register_module_forward_pre_hook(look)
    try:
        yield seen
    finally:
        handle.remove()


def warn_of_differences(gradients: TaskGradients, autocast: bool) -> None:
    """Warn where a difference is known not to be the product: at kinks, and in half precision."""
    if autocast:
        warnings.warn(
            "The losses run under autocast, whose rounding drowns a small displacement: use "
            "mode='exact', or compute them in float32.",
            stacklevel=4,
        )
    half = {p.dtype for p in gradients.parameters.tensors} & {torch.float16, torch.bfloat16}
    if half:
        warnings.warn(
            f"The weights are {half.pop()}, too coarse for a small displacement: keep them in float32, "
            "or use mode='exact'.",
            stacklevel=4,
        )
    model = gradients.engine.model
    for name, module in model.named_modules() if model is not None else ():
        if isinstance(module, KINKED):
            warnings.warn(
                f"{type(module).__name__} ({name!r}) has kinks, across which a difference of gradients "
                "is not the Hessian's product at any step size: use mode='exact'.",
                stacklevel=4,
            )
            return


def culprit(model: nn.Module | None, run: Callable[[], object]) -> str:
    """Which module can be differentiated only once: each is tried on what it gets in one run."""
    if model is None:
        return "the loss"
    seen: list[tuple[str, nn.Module, tuple[Any, ...], dict[str, Any]]] = []
    handles = []
    for name, module in model.named_modules():
        if getattr(module, "_compiled_call_impl", None) is not None or hasattr(module, "_orig_mod"):
            return f"the compiled module {name!r}" if name else "the compiled model"

        def keep(m: nn.Module, args: Any, kwargs: Any, name: str = name) -> None:
            seen.append((name, m, args, kwargs))

        handles.append(module.register_forward_pre_hook(keep, with_kwargs=True))
    try:
        with torch.no_grad():
            run()
    finally:
        for handle in handles:
            handle.remove()
    for name, module, args, kwargs in reversed(seen):  # the innermost come last
        if not _twice_differentiable(module, args, kwargs):
            return f"{type(module).__name__} ({name!r})" if name else type(module).__name__
    return "the loss"


def _twice_differentiable(module: nn.Module, args: Any, kwargs: Any) -> bool:
    inputs = [
        a.detach().clone().requires_grad_()
        if isinstance(a, torch.Tensor) and a.is_floating_point()
        else a
        for a in args
    ]
    try:
        output = module(*inputs, **kwargs)
        while isinstance(output, tuple | list):
            output = output[0]
        if not isinstance(output, torch.Tensor) or not output.requires_grad:
            return True
        leaves = [a for a in inputs if isinstance(a, torch.Tensor) and a.requires_grad]
        leaves += [p for p in module.parameters() if p.requires_grad]
        first = torch.autograd.grad(output.square().sum(), leaves, create_graph=True, allow_unused=True)
        total = torch.stack(
            [g.square().sum() for g in first if g is not None and g.requires_grad]
        ).sum()
        torch.autograd.grad(total, leaves, allow_unused=True)
    except (RuntimeError, NotImplementedError):
        return False
    return True
