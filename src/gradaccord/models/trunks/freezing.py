"""Parts of a trunk by name (`embeddings`, `layers 0-3`, ...), and weights that stay as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torch import nn

from gradaccord.models.trunks.trunk import Trunk

WHOLE, EMBEDDINGS, LAYERS = "trunk", "embeddings", "layers"
WRAPPERS = ("model", "network", "encoder")  # modules that are nothing but a place for others


@dataclass(frozen=True)
class Parts:
    """The names of the modules that make up each part; `stacks` are lists of layers."""

    stacks: dict[str, list[str]]  # "layers", or with two halves "encoder layers" and "decoder layers"
    others: dict[str, list[str]]

    @classmethod
    def of(cls, trunk: nn.Module) -> Parts:
        """Layers are what stands in lists of modules; embeddings are all that has that in its name."""
        lists = list(_outermost_lists(trunk))
        stacks = {
            label: [f"{name}.{i}" for i in range(len(layers))]
            for label, (name, layers) in zip(_labels([n for n, _ in lists]), lists, strict=True)
        }
        others: dict[str, list[str]] = {}
        for name, module in trunk.named_modules():
            inside = any(name.startswith(f"{stack}.") for stack, _ in lists)
            if not inside and next(module.parameters(recurse=False), None) is not None:
                others.setdefault(_part(name, module), []).append(name)
        return cls(stacks, others)

    def __str__(self) -> str:
        stacks = [f"{label} 0-{len(layers) - 1}" for label, layers in self.stacks.items()]
        others = sorted(self.others, key=lambda name: name != EMBEDDINGS)
        return ", ".join([*others[:1], *stacks, *others[1:], WHOLE])

    def modules(self, part: str) -> list[str] | None:
        """The modules of a part, such as `layers 0-3` with both ends; None if there is no such part."""
        words = " ".join(part.split())
        if words == WHOLE:
            return [""]
        if words in self.others:
            return self.others[words]
        found = re.fullmatch(r"(.*?layer)s?(?: (\d+)(?: ?- ?(\d+))?)?", words)
        layers = None if found is None else self.stacks.get(f"{found[1]}s")
        if found is None or layers is None:
            return None
        if found[2] is None:
            return layers
        first, last = int(found[2]), int(found[3] or found[2])
        return layers[first : last + 1] if first <= last < len(layers) else None


def modules_of(trunk: Trunk, parts: Iterable[str]) -> list[str]:
    """The names of the modules of some parts; an unknown part is an error that lists the known ones."""
    known = Parts.of(trunk)
    names = []
    for part in parts:
        found = known.modules(part)
        if found is None:
            raise ValueError(f"`model.freeze` names {part!r}: the parts of this model are {known}.")
        names += found
    return names


def freeze(trunk: Trunk, modules: Sequence[str]) -> None:
    """Their weights get no gradient, and their batch norms keep the statistics that they have."""
    for name in modules:
        trunk.get_submodule(name).requires_grad_(False)
    trunk.frozen = (*trunk.frozen, *modules)


def _outermost_lists(trunk: nn.Module) -> Iterator[tuple[str, nn.ModuleList]]:
    found: list[str] = []
    for name, module in trunk.named_modules():
        inside = any(name.startswith(f"{outer}.") for outer in found)
        weights = any(True for _ in module.parameters())
        if isinstance(module, nn.ModuleList) and weights and not inside:
            found.append(name)
            yield name, module


def _labels(names: Sequence[str]) -> list[str]:
    """What tells the lists apart, before the word for layers."""
    if len(names) == 1:
        return [LAYERS]
    paths = [name.split(".") for name in names]
    shared = [steps[0] for steps in zip(*paths, strict=False) if len(set(steps)) == 1]
    own = [[step for step in path[:-1] if step not in shared] or path[-1:] for path in paths]
    return [" ".join([*steps, LAYERS]) for steps in own]


def _part(name: str, module: nn.Module) -> str:
    """The part that a module with weights of its own belongs to."""
    if "embed" in name.lower() or isinstance(module, nn.Embedding):
        return EMBEDDINGS
    steps = [step for step in name.split(".") if step not in WRAPPERS]
    return steps[0] if steps else WHOLE
