"""TorchJD's weightings: by name with options or from an aggregator; and those that cannot be used."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import torch
from torch import nn

from gradaccord.core.did_you_mean import canonical, nearest
from gradaccord.core.options import check_options, options_of
from gradaccord.methods.combine.conflict_free import config_weights

COORDINATES = "combines single coordinates and not task gradients"
TWO_BATCHES = "needs the gradients of two independent batches of every task, and a step has one"
REFUSED = {
    **dict.fromkeys(("ExcessMTL", "GradDrop", "TrimmedMean"), COORDINATES),
    **dict.fromkeys(("MoDo", "SDMGrad"), TWO_BATCHES),
}


def weighting_options(name: str, given: Mapping[str, Any]) -> dict[str, inspect.Parameter]:
    """The options of the weighting with this name; a list may be given for a tensor."""
    options = lists_for_tensors(options_of(_classes()[_known(name)]))
    smoothed = options.pop("weighting", None)
    if smoothed is not None:
        options["inner"] = smoothed.replace(name="inner", annotation=str)
    if "inner" in options and "inner" in given:
        options = weighting_options(given["inner"], given) | options
    return options


def lists_for_tensors(options: dict[str, inspect.Parameter]) -> dict[str, inspect.Parameter]:
    """The options with a list of numbers allowed wherever a tensor is."""
    return {
        option: parameter.replace(annotation=parameter.annotation | Sequence[float])
        if torch.Tensor in (parameter.annotation, *get_args(parameter.annotation))
        else parameter
        for option, parameter in options.items()
    }


def named(name: str, given: Mapping[str, Any]) -> Any:
    """The weighting or aggregator of a name, e.g. "CAGrad" with {"c": 0.5}; lists are made tensors.

    "CRMOGM" takes `inner`, the name of the weighting that it smooths, and that one's options.
    """
    known = _known(name)
    check_options(f"The weighting {known!r}", given, weighting_options(name, given))
    cls = _classes()[known]
    own = {k: as_tensor(v) for k, v in given.items() if k in inspect.signature(cls).parameters}
    if "inner" in given:
        rest = {k: v for k, v in given.items() if k not in own and k != "inner"}
        own["weighting"], _ = weighting_of(named(given["inner"], rest))
    try:
        return cls(**own)
    except (TypeError, ValueError, AttributeError) as error:
        shown = ", ".join(f"{k}={v!r}" for k, v in given.items()) or "nothing"
        raise ValueError(f"The weighting {known!r} cannot be made of {shown}: {error}") from error


def weighting_of(given: Any) -> tuple[Any, bool]:
    """The weighting inside an aggregator, and whether it wants a Jacobian instead of its Gram."""
    aggregation = _aggregation()
    for part in given.modules() if isinstance(given, nn.Module) else ():
        for name, reason in REFUSED.items():
            if isinstance(part, tuple(_variants(name))):
                _refuse(name, reason)
    if isinstance(given, aggregation.ConFIG):
        return _ConFIG(given.weighting), False
    if isinstance(given, aggregation.GramianWeightedAggregator):
        return given.gramian_weighting, False
    if isinstance(given, aggregation.WeightedAggregator):
        return given.weighting, True
    if isinstance(given, aggregation.Aggregator):
        _refuse(type(given).__name__, COORDINATES)
    if not callable(given) or isinstance(given, type):
        raise TypeError(
            f"`weighting` is {given!r}: give a name or an instance, e.g. 'UPGrad' or "
            "torchjd.aggregation.UPGradWeighting()."
        )
    inner = given
    while isinstance(inner, aggregation.CRMOGMWeighting):
        inner = inner.weighting
    return given, hasattr(inner, "_init_optim_problem")  # Nash-MTL's, taken out of its aggregator


def is_stateful(weighting: Any) -> bool:
    """Whether it keeps state for every task, by position."""
    import torchjd

    modules = weighting.modules() if isinstance(weighting, nn.Module) else ()
    return any(isinstance(part, torchjd.Stateful) for part in modules)


def constants_of(weighting: Any) -> list[Any]:
    """The parts that hold a weight or preference for every task, by position."""
    constant = _aggregation().ConstantWeighting
    modules = weighting.modules() if isinstance(weighting, nn.Module) else ()
    return [part for part in modules if isinstance(part, constant)]


class _ConFIG(nn.Module):
    """ConFIG with TorchJD's preferences."""

    def __init__(self, preferences: Any) -> None:
        super().__init__()
        self.preferences = preferences

    def forward(self, gram: torch.Tensor) -> torch.Tensor:
        return config_weights(gram, self.preferences(gram))


def _refuse(name: str, reason: str) -> None:
    raise TypeError(
        f"`weighting` is {name}, which {reason}: use one that follows from the Gram matrix, e.g. "
        "UPGrad."
    )


def _aggregation() -> Any:
    try:
        from torchjd import aggregation
    except ImportError as error:
        raise ModuleNotFoundError(
            'TorchJD is not installed: pip install "gradaccord[torchjd]".', name="torchjd"
        ) from error
    return aggregation


def _variants(name: str) -> list[type]:
    """The aggregator and the weighting of a name, as far as TorchJD has them."""
    found = [getattr(_aggregation(), n, None) for n in (name, f"{name}Weighting")]
    return [cls for cls in found if cls is not None]


def _classes() -> dict[str, Any]:
    """Every weighting by its name, the aggregator where there is one."""
    aggregation = _aggregation()
    bases = ("Aggregator", "GramianWeightedAggregator", "WeightedAggregator", "Weighting")
    public = [n.removesuffix("Weighting") for n in aggregation.__all__ if n not in bases]
    return {name: _variants(name)[0] for name in public}


def _known(name: str) -> str:
    """The name as TorchJD writes it; one that does not exist, or does not fit, is refused."""
    found = canonical(re.sub("(?i)weighting$", "", str(name)), _classes())
    if found in REFUSED:
        _refuse(found, REFUSED[found])
    usable = [known for known in _classes() if known not in REFUSED]
    if found not in usable:
        raise ValueError(
            f"`weighting` is {name!r}, which TorchJD does not have: {nearest(str(name), usable)}"
        )
    return found


def as_tensor(value: Any) -> Any:
    """A list of numbers as a tensor; anything else as it is."""
    return (
        torch.tensor(value, dtype=torch.float64, device="cpu")
        if isinstance(value, list | tuple)
        else value
    )
