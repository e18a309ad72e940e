"""LoRA (Hu et al. 2022) through peft: small trained matrices beside the trunk's frozen weights."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

from torch import nn

from gradaccord.data.files.bad_files import reason
from gradaccord.models.trunks.huggingface import freeze_unlearned
from gradaccord.models.trunks.trunk import Trunk

M = TypeVar("M", bound=nn.Module)


def add_lora(trunk: Trunk, options: Mapping[str, Any]) -> None:
    """W x becomes W x + (lora_alpha / r) B A x in the target modules; only A and B are trained.

    B starts at 0: the outputs are those of the pretrained weights. A is drawn from torch's global
    generator. options: those of `peft.LoraConfig`.
    """
    try:
        import peft
    except ImportError as error:
        raise ModuleNotFoundError(
            '`model.lora` is given and the package peft is missing: pip install "gradaccord[lora]".',
            name="peft",
        ) from error
    inner: Any = getattr(trunk, "model", None)
    if inner is None:
        raise ValueError(
            f"`model.lora` needs a Hugging Face model, and a {type(trunk).__name__} is not one: leave "
            "it out; `model.freeze` takes any model."
        )
    try:
        peft.inject_adapter_in_model(peft.LoraConfig(**options), inner)
    except ValueError as error:
        raise ValueError(
            f"`model.lora` does not fit a {type(inner).__name__} ({reason(error)}): name linear layers "
            "of it in `target_modules`, or give all-linear."
        ) from error
    freeze_unlearned(inner)


def has_lora(model: nn.Module) -> bool:
    """Whether `add_lora` was called on a module inside."""
    return any(hasattr(module, "lora_A") for module in model.modules())


def merge_lora(model: nn.Module) -> None:
    """Add B A to the weights, for good: the modules and names are those before `add_lora`."""
    for name, module in list(model.named_modules()):
        if hasattr(module, "lora_A"):
            layer: Any = module
            layer.merge()
            model.set_submodule(name, layer.get_base_layer())


def without_lora(model: M) -> M:
    """A copy with merged weights; the model itself if it has no LoRA."""
    if not has_lora(model):
        return model
    plain = copy.deepcopy(model)
    merge_lora(plain)
    return plain
