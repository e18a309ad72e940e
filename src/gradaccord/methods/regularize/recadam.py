"""RecAdam: Adam that recalls the pretrained weights while its objective turns to the task."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch.optim.adamw import adamw

from gradaccord.core.checks import finite, one_of
from gradaccord.core.sharding import local
from gradaccord.core.temporary_weights import weights_moved

Params: TypeAlias = (
    Iterable[torch.Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, torch.Tensor]]
)

Anneal = Literal["sigmoid", "linear", "constant"]

# The least share of the task where weights decay: next to nothing, but decay can be divided by it.
LEAST_SHARE = 1e-12


class RecAdam(torch.optim.Optimizer):
    """RecAdam (Chen S. et al. 2020, "Recall and Learn"): fine-tuning with less forgetting.

        theta <- (1 - lr wd) theta - lr lambda(t) m^ / (sqrt(v^) + eps)     m^, v^: Adam's, of the task
        theta <- theta - lr gamma (1 - lambda(t)) (theta - theta*)          theta*: pretrained weights
        lambda(t) = sigmoid(k (t - t0)), or min(1, t / t0), or `constant`;  t = 1, 2, ... steps

    Minimises lambda L + (1 - lambda) gamma/2 |theta - theta*|^2 with the pull decoupled from the
    moments. With lambda = 1 it is torch's AdamW: weight decay first, eps added after the bias
    correction (the authors' code adds eps before it and decays last). The pull is over soon after t0
    (sigmoid, linear): choose t0 relative to the length of training. Cost: the batch gradients of Adam
    and one more copy of the weights; an optimiser step takes about 1.4 times that of fused AdamW while
    it pulls, the same afterwards. Differs from L2-SP, whose pull goes through Adam's moments and never
    ends.

    Every option may be given per parameter group. New heads, which have no pretrained weights, are a
    group with new=True, and get plain AdamW:

        RecAdam([{"params": encoder.parameters()}, {"params": head.parameters(), "new": True}], lr=3e-5)

    betas, eps, weight_decay: as in torch's AdamW.
    gamma: the strength of the pull.
    anneal: the schedule of lambda, "sigmoid", "linear" or "constant".
    k, t0: how steep the sigmoid is, and the step of its middle; a linear lambda reaches 1 at t0.
    constant: lambda of anneal="constant".
    pretrained: theta* of the parameters in a group, in their order; by default the weights as they
        are when the optimiser is built. Always copied, and saved in `state_dict`.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 3e-5,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        gamma: float = 5000.0,
        anneal: Anneal = "sigmoid",
        k: float = 0.5,
        t0: float = 250.0,
        constant: float = 0.5,
        new: bool = False,
        pretrained: Sequence[torch.Tensor] | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "gamma": gamma,
            "anneal": anneal,
            "k": k,
            "t0": t0,
            "constant": constant,
            "new": new,
            "pretrained": pretrained,
            "t": 0,  # steps taken: the time of the schedule
            "fused": False,
        }
        super().__init__(params, defaults)
        self.defaults.pop("pretrained")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, as torch does; their pretrained weights are copied now."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            pretrained = group.pop("pretrained", None)
            _check(group)
            starts = [] if group["new"] else _pretrained(group["params"], pretrained)
        except Exception:
            del self.param_groups[-1]
            raise
        group["fused"] = all(p.device.type in ("cpu", "cuda") for p in group["params"])
        for parameter, start in zip(group["params"], starts, strict=False):
            with torch.no_grad():
                copy = torch.empty_like(parameter).copy_(start)
            self.state[parameter]["pretrained"] = copy

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step of every group; raises before any weight moves if the pull would diverge."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        shares = [_shares(group, group["t"] + 1) for group in self.param_groups]
        pulls = [
            _checked_pull(group, recall)
            for group, (_, recall) in zip(self.param_groups, shares, strict=True)
        ]
        for group, (task, _), pull in zip(self.param_groups, shares, pulls, strict=True):
            group["t"] += 1
            parameters = [p for p in group["params"] if p.grad is not None]
            if parameters:
                self._adam(group, parameters, task)
                self._recall(parameters, pull)
        weights_moved()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a saved state: moments, time of the schedule and pretrained weights."""
        if any("gamma" not in group for group in state_dict["param_groups"]):
            raise ValueError(
                "The state was not saved by RecAdam and holds no pretrained weights: load it into the "
                "optimizer that saved it."
            )
        super().load_state_dict(state_dict)

    def reset_moments(self, parameters: Iterable[torch.Tensor]) -> None:
        """Forget the moments of these parameters; the schedule and the pretrained weights stay."""
        for parameter in parameters:
            state = self.state.get(parameter, {})
            for key in ("step", "exp_avg", "exp_avg_sq"):
                state.pop(key, None)

    def _adam(self, group: dict[str, Any], parameters: list[torch.Tensor], task: float) -> None:
        """AdamW with its displacement times `task`; the decay is not, so it is divided by it."""
        decay = group["weight_decay"]
        if decay:
            task = max(task, LEAST_SHARE)
        states = [self._moments(p, group["fused"]) for p in parameters]
        adamw(
            [local(p) for p in parameters],
            [local(p.grad) for p in parameters if p.grad is not None],
            [local(state["exp_avg"]) for state in states],
            [local(state["exp_avg_sq"]) for state in states],
            [],
            [state["step"] for state in states],
            fused=group["fused"],
            amsgrad=False,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            lr=float(group["lr"]) * task,
            weight_decay=decay / task if decay else 0.0,
            eps=group["eps"],
            maximize=False,
        )

    def _recall(self, parameters: list[torch.Tensor], pull: float) -> None:
        """Go the share `pull` of the way back to the pretrained weights, where that is not nothing."""
        near = [p for p in parameters if pull > torch.finfo(p.dtype).eps / 2]
        if near:
            starts = [local(self.state[p]["pretrained"]) for p in near]
            torch._foreach_lerp_([local(p) for p in near], starts, pull)

    def _moments(self, parameter: torch.Tensor, fused: bool) -> dict[str, Any]:
        if parameter.grad is not None and parameter.grad.is_sparse:
            raise RuntimeError(
                f"RecAdam does not take the sparse gradient of a parameter of shape "
                f"{tuple(parameter.shape)}: build its embedding with sparse=False."
            )
        state: dict[str, Any] = self.state[parameter]
        if "step" not in state:
            device = parameter.device if fused else "cpu"
            state["step"] = torch.zeros((), dtype=torch.float32, device=device)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        return state


def _shares(group: dict[str, Any], t: int) -> tuple[float, float]:
    """Lambda(t) of the task and 1 - lambda(t) of the pull, neither by subtraction from 1."""
    if group["new"]:
        return 1.0, 0.0
    if group["anneal"] == "sigmoid":
        x = group["k"] * (t - group["t0"])
        z = math.exp(-abs(x))
        small, large = z / (1 + z), 1 / (1 + z)
        return (large, small) if x >= 0 else (small, large)
    task = group["constant"] if group["anneal"] == "constant" else min(1.0, t / group["t0"])
    return task, 1 - task


def _checked_pull(group: dict[str, Any], recall: float) -> float:
    lr, gamma = float(group["lr"]), float(group["gamma"])
    pull = lr * gamma * recall
    if pull >= 1:
        raise ValueError(
            f"lr={lr:g} times gamma={gamma:g} times 1 - lambda={recall:.3g} is {pull:.3g}, and a pull "
            "of 1 or more overshoots the pretrained weights and diverges: use gamma < "
            f"{1 / (lr * recall):.3g}, or a smaller lr."
        )
    return pull


def _check(group: dict[str, Any]) -> None:
    for name in ("lr", "eps", "weight_decay", "gamma"):
        finite(name, group[name])
    if len(group["betas"]) != 2 or not all(0 <= beta < 1 for beta in group["betas"]):
        raise ValueError(f"`betas` is {group['betas']}: it must be two numbers in [0, 1).")
    one_of("anneal", group["anneal"], Anneal)
    if not 0 < group["k"] < float("inf"):
        raise ValueError(f"`k` is {group['k']}: it must be a finite number > 0.")
    if not (math.isfinite(group["t0"]) and (group["t0"] > 0 or group["anneal"] != "linear")):
        raise ValueError(f"`t0` is {group['t0']}: it must be a finite number of steps > 0.")
    if not 0 <= group["constant"] <= 1:
        raise ValueError(f"`constant` is {group['constant']}: lambda must be in [0, 1].")
    for parameter in group["params"]:
        if not parameter.is_floating_point():
            raise TypeError(f"RecAdam got a parameter of {parameter.dtype}: use real floating point.")


def _pretrained(
    parameters: Sequence[torch.Tensor], given: Sequence[torch.Tensor] | None
) -> Sequence[torch.Tensor]:
    if given is None:
        return parameters
    given = list(given)
    if len(given) != len(parameters):
        raise ValueError(
            f"`pretrained` has {len(given)} tensors for {len(parameters)} parameters: give one for "
            "each parameter of the group, in their order."
        )
    for i, (parameter, start) in enumerate(zip(parameters, given, strict=True)):
        if parameter.shape != start.shape:
            raise ValueError(
                f"`pretrained`[{i}] has shape {tuple(start.shape)} and its parameter "
                f"{tuple(parameter.shape)}: give the weights in the order of the parameters."
            )
    return given
