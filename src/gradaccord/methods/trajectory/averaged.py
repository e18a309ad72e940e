"""Averaged: plain training, evaluated and saved at a running mean of the weights."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import torch

from gradaccord.core.checks import one_of, whole_number
from gradaccord.core.losses import Losses
from gradaccord.core.method import Method
from gradaccord.core.parameters import Model, Parameters
from gradaccord.core.report import StepReport
from gradaccord.core.sharding import local
from gradaccord.methods.combine.plain import Sum
from gradaccord.methods.trajectory.outer_weights import OuterWeights, copied, loaded, saved, swap
from gradaccord.methods.trajectory.trajectory import check_gradient

Average = Literal["ema", "swa"]
DECAY = 0.999


class Averaged(OuterWeights):
    """Weight averaging: exponential (EMA, Polyak and Juditsky 1992; as teacher, Tarvainen and Valpola
    2017) or uniform (SWA, Izmailov et al. 2018, "Averaging Weights Leads to Wider Optima").

        theta <- Opt(theta, sum_t g_t)                       as without the method, bit for bit
        phi   <- phi + a_n (theta - phi)                     n = 1, 2, ... from step `start` + 1 on
        EMA: a_n = (1 - decay) / (1 - decay^n)     SWA: a_n = 1 / n

    phi is the weighted mean of all theta so far, without the initial weights. Evaluate and save inside
    `outer_weights`, where the model holds phi. `finish` leaves phi in the model. Buffers (running
    statistics of batch norms) are those of theta, the model's own. Call `after_step` after every
    `optimizer.step()`. A frozen parameter is not averaged; once unfrozen, its mean starts from its
    current value. Cost: that of `Sum`, one copy of the weights and a pass over them a step. It is the
    control that shows whether `SequentialReptile` gains by alignment or by averaging.

    average: "ema" or "swa".
    decay: of "ema", 0.999 by default; the mean is over about 1 / (1 - decay) steps.
    start: steps to take before the mean begins; until then phi is theta.
    gradient: the method that fills `.grad`, e.g. PCGrad(model). By default the plain sum, which takes
        `options` (engine, reduction, ...).
    """

    def __init__(
        self,
        model: Model,
        *,
        average: Average = "ema",
        decay: float | None = None,
        start: int = 0,
        gradient: Method | None = None,
        **options: Any,
    ) -> None:
        one_of("average", average, Average)
        if average == "swa" and decay is not None:
            raise ValueError(
                f"`decay` is {decay} and `average` is 'swa', a plain mean without decay: leave it out."
            )
        if decay is not None and not 0 <= decay < 1:
            raise ValueError(f"`decay` is {decay}: it must be in [0, 1).")
        check_gradient(gradient, options)
        if not isinstance(model, torch.nn.Module):
            model = list(model)
        self.decay = 1.0 if average == "swa" else DECAY if decay is None else float(decay)
        self.start = whole_number("start", start, least=0)
        known = Parameters.of(model)
        self.parameters = dict(zip(known.names, known.tensors, strict=True))
        self._phi = {}  # where phi is theta
        self.gradient = Sum(model, **options) if gradient is None else gradient
        self.step = 0  # optimiser steps taken
        _warn_of_half_precision(known)

    def backward(self, losses: Losses) -> StepReport:
        """As the method given as `gradient`. See `gradaccord.core.method.Method`."""
        self._refuse_at_phi("backward")
        return self.gradient.backward(losses)

    @torch.no_grad()
    def after_step(self) -> None:
        """Count the optimiser step, and add its weights to the mean."""
        self._refuse_at_phi("after_step")
        self.gradient.after_step()
        self.step += 1
        n = self.step - self.start
        if n < 1:
            return
        share = 1 / n if self.decay == 1 else (1 - self.decay) / (1 - self.decay**n)
        phi = {}
        for name, parameter in self.parameters.items():
            if parameter.requires_grad:
                mean = self._phi.get(name)
                if mean is None or n == 1:
                    phi[name] = copied(parameter, mean)
                else:
                    phi[name] = mean.mul_(1 - share).add_(local(parameter.detach()), alpha=share)
        self._phi = phi

    def finish(self) -> bool:
        """Leave phi in the weights and end the mean; further steps would start a new one."""
        self._refuse_at_phi("finish")
        left = self.gradient.finish()
        swap(self.parameters, self._phi, self._apart())
        self._phi, self.step = {}, 0
        return left

    def _apart(self) -> list[str]:
        return [name for name in self._phi if self.parameters[name].requires_grad]

    def _state(self) -> dict[str, Any]:
        """The steps taken, phi by parameter name, the gradient's state."""
        return {
            "step": self.step,
            "phi": saved(self.parameters, self._phi),
            "gradient": self.gradient.state_dict(),
        }

    def _load(self, state: dict[str, Any]) -> None:
        phi = loaded(self.parameters, "phi", state["phi"])
        self.gradient.load_state_dict(state["gradient"])
        self._phi, self.step = phi, int(state["step"])


def _warn_of_half_precision(parameters: Parameters) -> None:
    for dtype in {p.dtype for p in parameters.tensors if p.requires_grad}:
        if dtype in (torch.float16, torch.bfloat16):
            warnings.warn(
                f"The weights are {dtype}, in which a mean over many steps rounds away: keep the "
                "weights in float32 and use autocast.",
                stacklevel=3,
            )
