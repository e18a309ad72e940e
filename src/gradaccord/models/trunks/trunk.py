"""The part of a model that all tasks share: from a batch to states that their heads read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

Pooling = Literal["cls", "mean"]
Batch = dict[str, torch.Tensor]


@dataclass(frozen=True)
class States:
    """What a trunk makes of a batch: a vector per token, and one per sequence."""

    tokens: torch.Tensor  # [sequences, length, hidden]
    mask: torch.Tensor  # [sequences, length] 1 for tokens, 0 for padding
    pooling: Pooling = "cls"

    @property
    def pooled(self) -> torch.Tensor:
        """[sequences, hidden]: the first token's vector, or the mean over the tokens."""
        if self.pooling == "cls":
            return self.tokens[:, 0]
        mask = self.mask.unsqueeze(-1).to(self.tokens.dtype)
        return (self.tokens * mask).sum(1) / mask.sum(1).clamp_min(1)


class Trunk(nn.Module):
    """Base class. `hidden` is the width of its states."""

    hidden: int
    dropout: float  # the default of the heads
    frozen: tuple[str, ...] = ()  # modules inside (`models.trunks.freezing`)

    def train(self, mode: bool = True) -> Trunk:
        """As of any module, but batch norms that are frozen keep their running statistics."""
        super().train(mode)
        for name in self.frozen:
            for module in self.get_submodule(name).modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        return self

    def forward(self, batch: Batch) -> States:
        """The states of a batch as `Encoded.batch` gives it."""
        raise NotImplementedError

    def options(self) -> dict[str, Any]:
        """The options of `load_trunk`, besides the folder, that make this trunk again."""
        return {}

    def checkpoint(self) -> None:
        """From now on, compute activations inside blocks again in the backward pass: less memory."""
        raise ValueError(
            f"A {type(self).__name__} cannot recompute its activations: set train.checkpointing to "
            "false."
        )

    def masked_lm_head(self) -> nn.Module:
        """From states [N, hidden] to logits [N, tokens]: the pretrained one, if there is one."""
        raise ValueError(f"A {type(self).__name__} predicts no tokens: choose another model.")

    def save(self, folder: Path) -> None:
        """Write configuration and weights so that `load` (and Hugging Face's own) can read them."""
        raise NotImplementedError


class Head(Protocol):
    """A module that turns the trunk's view of a batch into what its task's loss takes."""

    def __call__(self, trunk: Trunk, batch: Batch) -> torch.Tensor | dict[str, torch.Tensor]:
        """Call the trunk once and read its states."""
        ...


def save_own(trunk: Trunk, folder: Path, config: Mapping[str, Any]) -> None:
    """Write a trunk that is not Hugging Face's own, in two files of the same names."""
    from safetensors.torch import save_file

    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    weights = {name: value.detach().clone() for name, value in trunk.state_dict().items()}
    save_file(weights, str(folder / "model.safetensors"))
