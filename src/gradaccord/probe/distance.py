"""How far the weights have moved: l2 distance from a reference, whole and layer by layer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from gradaccord.core.parameters import canonical, layers_of, matching, unwrapped
from gradaccord.core.sharding import is_sharded

BLOCK = 1 << 20  # values at once: what a wider copy of a large embedding costs stays small


@dataclass(frozen=True)
class Moved:
    """Distances from the reference."""

    total: float
    layers: dict[str, float]  # by `gradaccord.core.parameters.layers_of`

    def to_floats(self) -> dict[str, float]:
        """A flat dictionary for any logger."""
        return {"distance": self.total} | {f"distance/{k}": v for k, v in self.layers.items()}


class Distance:
    """|theta - theta*|, where theta* are the weights when this is built, or `reference`.

        distance = Distance(model, within=["encoder"])      # before fine-tuning
        ...
        distance.measure().total

    theta* is copied once, to main memory. Sharded parameters are gathered one at a time: every process
    must call `measure`. New heads have nothing to compare with: leave them out with `within`.

    within: names or prefixes of the parameters that count; by default all.
    reference: a module, or a mapping from parameter name to tensor (a saved `state_dict`), with the
        names of `model`; other names are ignored.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        within: Iterable[str] | None = None,
        reference: nn.Module | Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        own = _named(model)
        chosen = own.keys() if within is None else matching("within", within, list(own))
        self.parameters = {name: tensor for name, tensor in own.items() if name in chosen}
        given = self.parameters if reference is None else _named(reference)
        self.reference = {name: self._taken(name, given) for name in self.parameters}

    @torch.no_grad()
    def measure(self) -> Moved:
        """The distances of the model's weights as they are now."""
        squares: dict[str, float] = {}
        layers_by_name = layers_of(list(self.parameters))
        for (name, parameter), layer in zip(self.parameters.items(), layers_by_name, strict=True):
            squares[layer] = squares.get(layer, 0.0) + _square(_whole(parameter), self.reference[name])
        layers = {layer: math.sqrt(square) for layer, square in squares.items()}
        return Moved(math.sqrt(math.fsum(squares.values())), layers)

    @torch.no_grad()
    def _taken(self, name: str, given: Mapping[str, torch.Tensor]) -> torch.Tensor:
        tensor = given.get(name)
        if tensor is None:
            raise ValueError(
                f"`reference` has no {name!r}: give weights under the names of the model, or leave "
                "parameters out with `within`."
            )
        if tensor.shape != self.parameters[name].shape:
            raise ValueError(
                f"`reference` has {name!r} in shape {tuple(tensor.shape)}, and the model in "
                f"{tuple(self.parameters[name].shape)}: give weights of the same model."
            )
        return _whole(tensor).detach().to("cpu", copy=True)


def _named(reference: nn.Module | Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
    if isinstance(reference, nn.Module):
        reference = dict(unwrapped(reference).named_parameters())
    return {canonical(name): tensor for name, tensor in reference.items()}


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def _square(one: torch.Tensor, other: torch.Tensor) -> float:
    """The squared distance: differences in float32 at least, their squares summed in float64."""
    wide = torch.promote_types(one.dtype, torch.float32)
    total = 0.0
    pieces = zip(torch.split(one.flatten(), BLOCK), torch.split(other.flatten(), BLOCK), strict=True)
    for a, b in pieces:
        difference = a.to("cpu", wide) - b.to(wide)
        total += float(difference.to(torch.float64).square().sum())
    return total
