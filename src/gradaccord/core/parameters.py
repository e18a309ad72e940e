"""Which parameters a method works on, under which names, and in which groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import nn

Model: TypeAlias = nn.Module | Iterable[tuple[str, torch.Tensor]]
Unit = Literal["model", "layer", "tensor"]
Granularity: TypeAlias = Unit | Callable[[str], str] | Mapping[str, Sequence[str]]

# Rows of an embedding are stored sparsely from this table size on; below, a dense copy is as cheap.
MIN_ROWS = 2048


@dataclass(frozen=True)
class Parameters:
    """The tensors of a model in a fixed order, with names that no wrapper changes."""

    names: tuple[str, ...]
    tensors: tuple[torch.Tensor, ...]
    embeddings: frozenset[int]  # positions whose gradient touches few rows

    @classmethod
    def of(cls, model: Model) -> Parameters:
        """Read the parameters of a module, or of an iterable of (name, tensor) pairs."""
        if not isinstance(model, Iterable | nn.Module):
            raise TypeError(
                "`model` must be a torch.nn.Module or an iterable of (name, parameter) pairs, got "
                f"{model!r}."
            )
        if isinstance(model, nn.Module):
            pairs: list[tuple[str, torch.Tensor]] = list(unwrapped(model).named_parameters())
            tables = {
                id(module.weight)
                for module in model.modules()
                if isinstance(module, nn.Embedding | nn.EmbeddingBag)
            }
        else:
            pairs = _checked_pairs(model)
            tables = {id(p) for _, p in pairs if p.ndim == 2 and p.shape[0] >= 8 * p.shape[1]}
        distinct = {id(tensor): (canonical(name), tensor) for name, tensor in reversed(pairs)}
        ordered = list(reversed(distinct.values()))  # a tied tensor keeps its first name
        if not any(tensor.requires_grad for _, tensor in ordered):
            raise ValueError(
                f"`model` has {len(ordered)} parameters and none of them is trainable: "
                "set requires_grad=True on what should learn."
            )
        for name, tensor in ordered:
            if tensor.is_meta and tensor.requires_grad:
                raise ValueError(
                    f"Parameter {name!r} is on the meta device and has no values: load the weights (or "
                    "call model.to_empty and initialise them) before building the method."
                )
        return cls(
            names=tuple(name for name, _ in ordered),
            tensors=tuple(tensor for _, tensor in ordered),
            embeddings=frozenset(
                i for i, (_, t) in enumerate(ordered) if id(t) in tables and t.shape[0] >= MIN_ROWS
            ),
        )

    def __len__(self) -> int:
        return len(self.tensors)


def _checked_pairs(model: Iterable[tuple[str, torch.Tensor]]) -> list[tuple[str, torch.Tensor]]:
    pairs = []
    for item in model:
        if (
            not isinstance(item, tuple)
            or len(item) != 2
            or not isinstance(item[0], str)
            or not isinstance(item[1], torch.Tensor)
        ):
            raise TypeError(
                "`model` must be a torch.nn.Module or an iterable of (name, parameter) pairs, "
                f"got an item of type {type(item).__name__}: pass model.named_parameters()."
            )
        pairs.append(item)
    return pairs


def unwrapped(model: nn.Module) -> nn.Module:
    """The user's own module inside DDP, DataParallel, torch.compile and Fabric wrappers."""
    while True:
        if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
            model = model.module
            continue
        inner = getattr(model, "_orig_mod", None) or getattr(model, "_forward_module", None)
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def canonical(name: str) -> str:
    """The parameter's name without what torch.compile and activation checkpointing put into it."""
    return name.replace("_orig_mod.", "").replace("_checkpoint_wrapped_module.", "")


def matching(field: str, prefixes: Iterable[str], names: Sequence[str]) -> frozenset[str]:
    """The names that are, or lie below, one of the prefixes; each must match something."""
    chosen: set[str] = set()
    for prefix in [prefixes] if isinstance(prefixes, str) else prefixes:
        found = [n for n in names if n == prefix or n.startswith(f"{prefix}.")]
        if not found:
            raise ValueError(
                f"`{field}` lists {prefix!r}, but no parameter has that name or prefix; there are "
                f"{', '.join(names[:3])}, ..."
            )
        chosen.update(found)
    return frozenset(chosen)


@dataclass(frozen=True)
class Partition:
    """Groups of parameters that are treated as one vector each; -1 marks a parameter in none."""

    groups: tuple[str, ...]
    index: tuple[int, ...]  # group of each parameter, by position

    @classmethod
    def of(cls, names: Sequence[str], granularity: Granularity) -> Partition:
        """Put every name into exactly one group.

        granularity: "model" (one group), "layer" (see `layers_of`), "tensor" (one group each),
        a function from parameter name to group name, or a mapping from group name to the
        parameter names or module prefixes in it.
        """
        keys: Sequence[str | None]
        if isinstance(granularity, Mapping):
            keys = _listed(names, granularity)
        elif granularity == "layer":
            keys = layers_of(names)
        else:
            rule = _rule(granularity)
            keys = [rule(name) for name in names]
        for name, key in zip(names, keys, strict=True):
            if key is not None and not isinstance(key, str):
                raise TypeError(
                    f"`granularity` gave the group {key!r} for parameter {name!r}: "
                    "it must return a string."
                )
        groups = tuple(dict.fromkeys(key for key in keys if key is not None))
        number = {group: i for i, group in enumerate(groups)}
        return cls(groups, tuple(-1 if key is None else number[key] for key in keys))


def _rule(granularity: Unit | Callable[[str], str]) -> Callable[[str], str]:
    rules: dict[str, Callable[[str], str]] = {
        "model": lambda name: "model",
        "tensor": lambda name: name,
    }
    if callable(granularity):
        return granularity
    if not isinstance(granularity, str) or granularity not in rules:
        raise ValueError(
            f"`granularity` is {granularity!r}: use 'model', 'layer', 'tensor', a function from "
            "parameter name to group name, or a mapping from group name to names."
        )
    return rules[granularity]


def layers_of(names: Sequence[str]) -> list[str]:
    """The layer of each parameter: its numbered block, else the module that holds it.

    `encoder.layer.3.attention.self.query.weight` -> `encoder.layer.3`; `pooler.dense.bias` ->
    `pooler.dense`; a parameter that the model holds directly is a layer of its own name. Of nested
    numbered blocks the one with the most siblings counts, the outer one if equal: the twelve layers
    of an encoder, and not the two parts of the nn.Sequential that it stands in.
    """
    siblings: dict[str, set[str]] = {}
    for name in names:
        parts = name.split(".")
        for depth, part in enumerate(parts[:-1]):
            if part.isdigit():
                siblings.setdefault(".".join(parts[:depth]), set()).add(part)
    layers = []
    for name in names:
        parts = name.split(".")
        numbered = [depth for depth, part in enumerate(parts[:-1]) if part.isdigit()]
        if numbered:
            depth = max(numbered, key=lambda d: len(siblings[".".join(parts[:d])]))
            layers.append(".".join(parts[: depth + 1]))
        else:
            layers.append(".".join(parts[:-1]) or name)
    return layers


def _listed(names: Sequence[str], groups: Mapping[str, Sequence[str]]) -> list[str | None]:
    owner: dict[str, str] = {}
    for group, members in groups.items():
        for member in [members] if isinstance(members, str) else members:
            for name in matching("granularity", [member], names):
                if name in owner and owner[name] != group:
                    raise ValueError(
                        f"`granularity` puts parameter {name!r} into two groups, {owner[name]!r} "
                        f"and {group!r}: a group must not overlap another."
                    )
                owner[name] = group
    return [owner.get(name) for name in names]
