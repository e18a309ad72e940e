"""Any weighting of TorchJD on our bank: CAGrad, MGDA, Nash-MTL, UPGrad and the rest."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from gradaccord.combine.combination import Combination, Measured
from gradaccord.core.parameters import Model


class TorchJD(Combination):
    """Weights by a `torchjd.aggregation` weighting or aggregator, gradients by the gradient bank.

        g = sum_t w_t g_t,   w = weighting(Gram matrix)

    `TorchJD(model, UPGradWeighting())` or `TorchJD(model, UPGrad())`. A weighting that is defined on
    the Jacobian but only depends on its Gram matrix (Nash-MTL) is given a T x T matrix with the same
    Gram matrix. One that looks at single coordinates (ExcessMTL, GradDrop, ConFIG, TrimmedMean) is
    not a weighting of task gradients and is refused. Any other module or function from a T x T
    tensor to T weights will do too. With several groups of parameters each has its own copy.
    Random draws come from the method's own generator. Cost: T batch gradients, T of memory.
    """

    def __init__(self, model: Model, weighting: Any, **options: Any) -> None:
        super().__init__(model, **options)
        inner, self.takes_jacobian = _weighting_of(weighting)
        named = inner if hasattr(inner, "__qualname__") else type(inner)
        self.name = str(named.__qualname__)
        self.weightings = [copy.deepcopy(inner) for _ in self.partition.groups]

    def weigh(self, measured: Measured) -> torch.Tensor:
        seed = int(torch.randint(2**62, (), generator=self.generator))
        weights = torch.ones(measured.grams.shape[:2], dtype=torch.float64)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for group in measured.shared.nonzero().flatten().tolist():
                weights[group] = self._weights(group, measured)
        return weights

    def _weights(self, group: int, measured: Measured) -> torch.Tensor:
        gram = measured.grams[group]
        stat = _root(gram) if self.takes_jacobian else gram
        weights = self.weightings[group](stat)
        if not isinstance(weights, torch.Tensor) or weights.shape != (len(gram),):
            got = tuple(weights.shape) if isinstance(weights, torch.Tensor) else weights
            raise ValueError(
                f"The weighting {self.name} returned {got} for the tasks "
                f"{', '.join(measured.tasks)}: it must return {len(gram)} weights."
            )
        weights = weights.detach().to("cpu", torch.float64)
        for task, weight in zip(measured.tasks, weights.tolist(), strict=True):
            if not torch.isfinite(torch.tensor(weight)):
                raise ValueError(
                    f"The weighting {self.name} gave task {task!r} the weight {weight}: the step "
                    "was not taken."
                )
        return weights

    def state_dict(self) -> dict[str, Any]:
        states = [_plain_state(weighting) for weighting in self.weightings]
        return super().state_dict() | {"weighting": self.name, "weightings": states}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state.get("weighting", self.name) != self.name:
            raise ValueError(
                f"The state was saved with the weighting {state['weighting']}, and this method has "
                f"{self.name}."
            )
        super().load_state_dict(state)
        for weighting, saved in zip(self.weightings, state["weightings"], strict=True):
            _load_plain_state(weighting, saved)


def _weighting_of(given: Any) -> tuple[Any, bool]:
    """The weighting inside an aggregator, and whether it wants a Jacobian instead of its Gram."""
    try:
        from torchjd import aggregation
    except ImportError as error:
        raise ImportError('TorchJD is not installed: pip install "gradaccord[torchjd]".') from error
    if isinstance(given, aggregation.GramianWeightedAggregator):
        return given.gramian_weighting, False
    if isinstance(given, aggregation.ExcessMTL | aggregation.ExcessMTLWeighting) or (
        isinstance(given, aggregation.Aggregator)
        and not isinstance(given, aggregation.WeightedAggregator)
    ):
        raise TypeError(
            f"`weighting` is {type(given).__name__}, which combines single coordinates and not task "
            "gradients: use one that follows from the Gram matrix, e.g. UPGradWeighting()."
        )
    if isinstance(given, aggregation.WeightedAggregator):
        return given.weighting, True
    if not callable(given) or isinstance(given, type):
        raise TypeError(
            f"`weighting` is {given!r}: pass an instance, e.g. torchjd.aggregation.UPGradWeighting()."
        )
    return given, False


def _root(gram: torch.Tensor) -> torch.Tensor:
    """A T x T matrix whose Gram matrix is `gram`."""
    values, vectors = torch.linalg.eigh(gram)
    root: torch.Tensor = vectors * values.clamp_min(0).sqrt()
    return root


def _plain_state(weighting: Any) -> list[dict[str, Any]]:
    """The tensors and numbers that each module inside a weighting holds, buffers or not."""
    if not isinstance(weighting, nn.Module):
        return []
    internal = set(vars(nn.Module()))
    states = []
    for module in weighting.modules():
        held = {k: v for k, v in vars(module).items() if k not in internal} | dict(module._buffers)
        states.append({k: _saved(v) for k, v in held.items() if _is_plain(v)})
    return states


def _load_plain_state(weighting: Any, states: list[dict[str, Any]]) -> None:
    if not isinstance(weighting, nn.Module):
        return
    for module, state in zip(weighting.modules(), states, strict=True):
        build = getattr(module, "_init_optim_problem", None)
        if state.get("step") and callable(build):
            build()  # Nash-MTL builds its solver on the first call only
        for name, value in state.items():
            setattr(module, name, _restored(value))


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_plain(item) for item in value)
    plain = (torch.Tensor, int, float, str, torch.dtype, torch.device)
    return value is None or isinstance(value, plain) or _is_array(value)


def _is_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and hasattr(value, "__array__")


def _saved(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    return {"numpy": torch.as_tensor(value).clone()} if _is_array(value) else value


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        return value["numpy"].clone().numpy()
    return value.clone() if isinstance(value, torch.Tensor) else value
