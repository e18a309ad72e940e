"""The part of a model that all tasks share: from a batch to states that their heads read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from gradaccord.data.encoded import Batch

Pooling = Literal["cls", "mean"]


@dataclass(frozen=True)
class States:
    """What a trunk makes of a batch: a vector per token, and one per sequence."""

    tokens: torch.Tensor  # [sequences, length, hidden]
    mask: torch.Tensor  # [sequences, length] 1 for tokens, 0 for padding
    pooling: Pooling = "cls"
    sentences: torch.Tensor | None = None  # of trunks that make them in layers of their own

    @property
    def pooled(self) -> torch.Tensor:
        """[sequences, pooled_width]: the first token's vector, the mean of all, or the trunk's own."""
        if self.sentences is not None:
            return self.sentences
        if self.pooling == "cls":
            return self.tokens[:, 0]
        mask = self.mask.unsqueeze(-1).to(self.tokens.dtype)
        return (self.tokens * mask).sum(1) / mask.sum(1).clamp_min(1)


class Trunk(nn.Module):
    """Base class. `hidden` is the width of its states."""

    hidden: int
    dropout: float  # the default of the heads
    frozen: tuple[str, ...] = ()  # modules inside (`models.trunks.freezing`)
    tables: tuple[str, ...] = ()  # embeddings inside that are too large to be stepped as a whole

    @property
    def pooled_width(self) -> int:
        """The width of a sequence's vector."""
        return self.hidden

    def train(self, mode: bool = True) -> Trunk:
        """As in any module, but frozen batch norms keep their running statistics."""
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
        """From now on, recompute activations inside blocks in the backward pass: less memory."""
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


def save_own(trunk: Trunk, folder: Path, config: Mapping[str, Any]) -> None:
    """Write a trunk that is not Hugging Face's own, in two files of the same names."""
    from safetensors.torch import save_file

    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    weights = {name: value.detach().clone() for name, value in trunk.state_dict().items()}
    save_file(weights, str(folder / "model.safetensors"))
