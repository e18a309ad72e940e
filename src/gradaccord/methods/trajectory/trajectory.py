"""What all trajectory methods share: phi is kept while theta moves, saved, and updated at the end."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch

from gradaccord.core.checks import one_of, whole_number
from gradaccord.core.losses import Losses
from gradaccord.core.method import Method
from gradaccord.core.options import options_of
from gradaccord.core.parameters import Model, Parameters, matching
from gradaccord.core.report import StepReport
from gradaccord.core.sharding import local
from gradaccord.core.temporary_weights import weights_moved
from gradaccord.methods.combine.combination import Combination
from gradaccord.methods.combine.plain import Sum
from gradaccord.methods.trajectory.outer_weights import OuterWeights, copied, loaded, saved

OptimizerState = Literal["reset", "keep"]


class Trajectory(OuterWeights):
    """Base class: `inner_steps` ordinary optimiser steps, then one outer update.

    phi are the outer weights, theta those that the optimiser moves. A trajectory starts with the first
    `backward` after an outer update, from the weights as they are then; between trajectories the
    model's weights are phi. Running statistics (BatchNorm) stay as the inner steps left them. A frozen
    parameter (requires_grad=False) is neither moved nor reset. Frozen within a trajectory, it keeps its
    value; once unfrozen, it takes part from the next step on.

    model: the module as it is called in the losses (wrapped in DDP, compiled, ...), or an iterable
        of (name, parameter) pairs.
    optimizer: the inner optimiser, needed for optimizer_state="reset".
    inner_steps: K, the optimiser steps of one trajectory.
    outer_lr: eta in (0, 1], the share of the way that phi goes. It may be changed between steps.
    optimizer_state: "reset" gives the parameters that an outer update moved a fresh optimiser state
        (moments; the learning rate and its schedule go on), "keep" leaves it.
    heads: names or prefixes of parameters that stay as trained: neither moved by the outer update nor
        reset. By default every trainable parameter takes part.
    gradient: the method that fills `.grad` at every step, e.g. PCGrad(model). By default the plain
        gradient, which takes `options` (engine, reduction, ...) and is not measured; give Sum(model) to
        have it measured.
    """

    def __init__(
        self,
        model: Model,
        optimizer: Any,
        inner_steps: int,
        outer_lr: float,
        optimizer_state: OptimizerState,
        *,
        heads: str | Sequence[str] | None = None,
        gradient: Method | None = None,
        **options: Any,
    ) -> None:
        several = ("normalize", "memory", "decide")  # which need several tasks
        of_gradient = options_of(Combination, hidden=("model", *several))
        unknown = sorted(set(options) - set(of_gradient))
        if unknown:
            own = options_of(type(self), hidden=("model", "optimizer"))
            raise TypeError(
                f"{type(self).__name__} has no option {unknown[0]!r}: its options are "
                f"{', '.join(sorted({*own, *of_gradient}))}."
            )
        if not isinstance(model, torch.nn.Module):
            model = list(model)
        check_gradient(gradient, options)
        self.inner_steps = whole_number("inner_steps", inner_steps)
        self.outer_lr = outer_lr
        self.optimizer_state = optimizer_state
        parameters = Parameters.of(model)
        kept = matching("heads", heads or (), parameters.names)
        named = zip(parameters.names, parameters.tensors, strict=True)
        self.parameters = {name: tensor for name, tensor in named if name not in kept}
        self._phi = {}
        if not self.parameters:
            raise ValueError(
                f"`heads` names all {len(kept)} parameters: leave some to take part in the trajectory."
            )
        self.optimizer = _checked_optimizer(optimizer, optimizer_state, self.parameters)
        self.gradient = Sum(model, measure=False, **options) if gradient is None else gradient
        self.step = 0  # inner steps taken in this trajectory; at 0 the weights are phi
        self._has_gradient = False
        self._warned: set[str] = set()

    @property
    def outer_lr(self) -> float:
        """Eta, the share of the way that phi goes at an outer update."""
        return self._outer_lr

    @outer_lr.setter
    def outer_lr(self, value: float) -> None:
        if not (isinstance(value, int | float) and 0 < value <= 1):
            raise ValueError(
                f"`outer_lr` is {value!r}: it must be in (0, 1], where 1 goes the whole way."
            )
        self._outer_lr = float(value)

    def backward(self, losses: Losses) -> StepReport:
        """Put an ordinary gradient into `.grad`. See `gradaccord.core.method.Method`."""
        self._refuse_at_phi("backward")
        if self._has_gradient:
            self._warn_once(
                "backward() was called again before after_step(): call after_step() after every "
                "optimizer.step(), or the trajectory never ends; to accumulate gradients, give a "
                "task a list of micro-batches."
            )
        self._warn_of_half_precision()
        report = self._inner(losses)
        self._has_gradient = True
        return report

    def after_step(self) -> None:
        """Count the optimiser step; after the last one of a trajectory, make the outer update."""
        self._refuse_at_phi("after_step")
        if not self._has_gradient:
            raise RuntimeError(
                "after_step() was called without backward() before it: a trajectory starts in the "
                "method's own backward(); to use other gradients, pass their method as `gradient`."
            )
        self._has_gradient = False
        self.gradient.after_step()
        self.step += 1
        if self.step == self.inner_steps:
            self._end()

    def finish(self) -> bool:
        """End the trajectory now, with the steps taken so far; between trajectories this does nothing.

        For the end of training, where `inner_steps` does not divide the number of steps.
        """
        self._refuse_at_phi("finish")
        self._has_gradient = False
        if self.step > 0:
            self._end()
        return False

    def _state(self) -> dict[str, Any]:
        """The steps taken, phi by parameter name (only inside a trajectory), the gradient's state."""
        return {
            "inner_steps": self.inner_steps,
            "step": self.step,
            "phi": saved(self.parameters, self._phi) if self.step > 0 else {},
            "gradient": self.gradient.state_dict(),
        }

    def _load(self, state: dict[str, Any]) -> None:
        if state["inner_steps"] != self.inner_steps:
            raise ValueError(
                f"The state was saved with inner_steps={state['inner_steps']}, and this method has "
                f"inner_steps={self.inner_steps}: use the same, or start a new trajectory."
            )
        phi = loaded(self.parameters, "phi", state["phi"])
        self.gradient.load_state_dict(state["gradient"])
        self._phi = phi
        self.step = int(state["step"])
        self._has_gradient = False

    def _inner(self, losses: Losses) -> StepReport:
        """One gradient of the trajectory, which the first of them begins."""
        self._begin()
        return self.gradient.backward(losses)

    def _begin(self) -> None:
        """Hold the weights as phi at the start of a trajectory; a parameter unfrozen later, then."""
        inside = set(self._apart())
        held = dict(self._phi) if self.step > 0 else self._phi
        phi = {}
        for name, parameter in self.parameters.items():
            memory = held.pop(name, None)
            if memory is not None and name in inside:
                phi[name] = memory
            elif parameter.requires_grad:
                phi[name] = copied(parameter, memory)
        self._phi = phi

    @torch.no_grad()
    def _end(self) -> None:
        """End the trajectory: leave phi in the weights and set `step` to 0."""
        names, theta, phi = self._moving()
        if names:  # else the heads alone are trained for now
            self._update(names, theta, phi)
            weights_moved()
        self.step = 0

    @abstractmethod
    def _update(self, names: list[str], theta: list[torch.Tensor], phi: list[torch.Tensor]) -> None:
        """The outer update of these parameters, in place."""

    def _reset(self, names: list[str]) -> None:
        """Take the optimiser's state off the parameters that an outer update moved, if so asked."""
        if self.optimizer_state == "keep":
            return
        moved = [self.parameters[name] for name in names]
        if hasattr(self.optimizer, "reset_moments"):  # RecAdam's state is more than its moments
            self.optimizer.reset_moments(moved)
            return
        for parameter in moved:
            self.optimizer.state.pop(parameter, None)

    def _apart(self) -> list[str]:
        return self._moving()[0] if self.step > 0 else []

    def _moving(self) -> tuple[list[str], list[torch.Tensor], list[torch.Tensor]]:
        """The parameters of this trajectory but for those frozen since: names, theta and phi.

        Theta are the model's own weights (this process's part), to be changed in place.
        """
        names = [name for name in self._phi if self.parameters[name].requires_grad]
        theta = [local(self.parameters[name].detach()) for name in names]
        phi = [self._phi[name] for name in names]
        for name, now, then in zip(names, theta, phi, strict=True):
            if (now.dtype, now.device) != (then.dtype, then.device):
                raise RuntimeError(
                    f"Parameter {name!r} was {then.dtype} on {then.device} when the trajectory began "
                    f"and is {now.dtype} on {now.device} now: convert or move the model between "
                    "trajectories, e.g. after finish()."
                )
        return names, theta, phi

    def _warn_of_half_precision(self) -> None:
        if self.step > 0 or self.outer_lr == 1:
            return
        trained = {p.dtype for p in self.parameters.values() if p.requires_grad}
        for dtype in trained & {torch.float16, torch.bfloat16}:
            self._warn_once(
                f"The weights are {dtype}, in which a share of a small displacement "
                "rounds away: keep the weights in float32 and use autocast.",
                stacklevel=4,
            )

    def _warn_once(self, message: str, stacklevel: int = 3) -> None:
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(message, stacklevel=stacklevel)


def check_gradient(gradient: Method | None, options: Mapping[str, Any]) -> None:
    """Refuse both a ready method for the gradient and options to make one."""
    if gradient is not None and options:
        raise TypeError(
            f"`gradient` was given together with {', '.join(sorted(options))}: these belong to the "
            "gradient's own method, pass them there."
        )


def _checked_optimizer(optimizer: Any, state: str, parameters: dict[str, torch.Tensor]) -> Any:
    """The optimiser inside Accelerate's or Fabric's wrapper, if its state can be taken off."""
    one_of("optimizer_state", state, OptimizerState)
    while hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    if optimizer is not None and not hasattr(optimizer, "param_groups"):
        raise TypeError(
            f"`optimizer` is of type {type(optimizer).__name__}: pass a torch.optim.Optimizer."
        )
    if state == "keep":
        return optimizer
    if optimizer is None:
        raise ValueError(
            "`optimizer_state` is 'reset' and no `optimizer` was given: pass the optimizer whose "
            "moments are to start afresh, or optimizer_state='keep'."
        )
    if isinstance(optimizer, torch.optim.Adagrad):
        raise ValueError(
            "`optimizer_state` is 'reset', but Adagrad makes its state only when it is built: use "
            "optimizer_state='keep' or another optimizer."
        )
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not any(id(p) in held for p in parameters.values()):
        raise ValueError(
            "`optimizer` holds none of the model's parameters, so that its state cannot be reset: "
            "build it from this model, or use optimizer_state='keep'."
        )
    return optimizer
