"""Where an input is perturbed: the embedding of a model, found or named, and a temporary hook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from gradaccord.core.checks import one_of
from gradaccord.core.parameters import canonical, unwrapped

# Given the number of the call in this pass, the tensor, and which positions are not padding (if known):
# the tensor to put in its place, or None.
Change = Callable[[int, torch.Tensor, torch.Tensor | None], torch.Tensor | None]


Side = Literal["output", "input"]


@dataclass(frozen=True)
class Place:
    """A module whose output (or input) is perturbed, in the calls made while `within` runs."""

    module: nn.Module
    side: Side = "output"
    within: nn.Module | None = None
    padding: int | None = None  # the token that is padding, where known

    @contextmanager
    def changed(self, change: Change) -> Iterator[None]:
        """Run a block in which `change` is asked at every call; the hooks are gone after it."""
        calls = 0
        depth = 1 if self.within is None else 0

        def enter(*_: Any) -> None:
            nonlocal depth
            depth += 1

        def leave(*_: Any) -> None:
            nonlocal depth
            depth -= 1

        def ask(x: Any, tokens: Any) -> torch.Tensor | None:
            nonlocal calls
            if depth < 1:
                return None
            if not isinstance(x, torch.Tensor) or not x.is_floating_point():
                raise TypeError(
                    f"The {self.side} of {type(self.module).__name__} is not a floating-point tensor: "
                    "name another module, or the other side, with `module` and `side`."
                )
            calls += 1
            return change(calls - 1, x, self._real(x, tokens))

        def after(_: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
            tokens = next(iter([*args, *kwargs.values()]), None)
            if isinstance(output, tuple):
                new = ask(output[0], tokens)
                return None if new is None else (new, *output[1:])
            if not hasattr(output, "last_hidden_state"):
                return ask(output, tokens)
            new = ask(output.last_hidden_state, tokens)
            if new is not None:
                output.last_hidden_state = new
            return output

        def before(_: nn.Module, args: Any, kwargs: Any) -> Any:
            if args:
                new = ask(args[0], None)
                return None if new is None else ((new, *args[1:]), kwargs)
            name = next(iter(kwargs), "")
            new = ask(kwargs.get(name), None)
            return None if new is None else (args, {**kwargs, name: new})

        with ExitStack() as stack:
            if self.within is not None:
                stack.callback(self.within.register_forward_pre_hook(enter).remove)
                stack.callback(self.within.register_forward_hook(leave, always_call=True).remove)
            if self.side == "output":
                handle = self.module.register_forward_hook(after, with_kwargs=True)
            else:
                handle = self.module.register_forward_pre_hook(before, with_kwargs=True)
            stack.callback(handle.remove)
            yield

    def _real(self, x: torch.Tensor, tokens: Any) -> torch.Tensor | None:
        if (
            self.padding is None
            or not isinstance(tokens, torch.Tensor)
            or tokens.is_floating_point()
            or tokens.shape != x.shape[:-1]
        ):
            return None
        return tokens != self.padding


def find_embedding(
    model: nn.Module, module: str | nn.Module | None = None, side: Side = "output"
) -> Place:
    """The place to perturb: the module that is named, else the model's one word embedding.

    Looks through DDP, torch.compile and LoRA; of an encoder-decoder only the encoder is perturbed.
    """
    one_of("side", side, Side)
    owner = pretrained(model)
    pad = getattr(getattr(owner, "config", None), "pad_token_id", None)
    if module is not None:
        return _place(named(model, module, "module"), side, None, pad)
    if owner is not None:
        within: Any = owner.get_encoder() if _has_decoder(owner) else None
        for holder in (within, owner):
            try:
                found = holder.get_input_embeddings()
            except (AttributeError, NotImplementedError, TypeError):
                continue
            if isinstance(found, nn.Module):
                return _place(found, side, within, pad)
    tables = {n: m for n, m in unwrapped(model).named_modules() if isinstance(m, nn.Embedding)}
    if len(tables) != 1:
        there = ", ".join(repr(canonical(name)) for name in list(tables)[:4])
        raise ValueError(
            f"The embedding of {type(unwrapped(model)).__name__} cannot be found: it has "
            f"{len(tables)} nn.Embedding modules{f' ({there})' if there else ''} and no "
            "get_input_embeddings(). Name the module whose output is to be perturbed, e.g. "
            "module='encoder.words'; for images, module='conv1', side='input'."
        )
    return _place(next(iter(tables.values())), side, None, pad)


def find_encoder(model: nn.Module, module: str | nn.Module | None = None) -> nn.Module:
    """The module whose output is the contextual states: named, or a Hugging Face model's own."""
    if module is not None:
        return named(model, module, "encoder")
    owner = pretrained(model)
    if owner is None:
        raise ValueError(
            f"The encoder of {type(unwrapped(model)).__name__} cannot be found: name the module "
            "whose output is the hidden states, e.g. encoder='encoder'."
        )
    found: nn.Module = owner.get_encoder() if _has_decoder(owner) else owner.base_model
    return found


def pretrained(model: nn.Module) -> Any:
    """The outermost Hugging Face model inside, whatever wraps it; None if there is none."""
    for module in unwrapped(model).modules():
        if hasattr(type(module), "get_input_embeddings") and hasattr(module, "config"):
            return module
    return None


def named(model: nn.Module, module: str | nn.Module, field: str) -> nn.Module:
    """The module of that name, without what wrappers add to it."""
    inner = unwrapped(model)
    if isinstance(module, nn.Module):
        wanted: nn.Module = unwrapped(module)
        if not any(wanted is m for m in inner.modules()):
            raise ValueError(f"`{field}` is a {type(wanted).__name__} that is not part of the model.")
        return wanted
    names: dict[str, nn.Module] = {canonical(name): m for name, m in inner.named_modules()}
    if module not in names:
        there = ", ".join(repr(name) for name in list(names)[1:5])
        raise ValueError(f"`{field}` is {module!r}: the model has no such module; it has {there}, ...")
    return names[module]


def _has_decoder(owner: Any) -> bool:
    return bool(getattr(owner.config, "is_encoder_decoder", False)) and hasattr(owner, "get_encoder")


def _place(module: nn.Module, side: Side, within: nn.Module | None, pad: Any) -> Place:
    padding = getattr(module, "padding_idx", None)
    if padding is None and isinstance(module, nn.Embedding):
        padding = pad
    return Place(module, side, within, padding if isinstance(padding, int) else None)
