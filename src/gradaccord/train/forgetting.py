"""The forgetting probe of a run: the pretrained masked-LM head on the trunk as it is now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from gradaccord.data import load
from gradaccord.data.leakage import text_of
from gradaccord.models.trunks.characters import CharacterTrunk
from gradaccord.probe.masked_lm import MaskedLM, with_encoder
from gradaccord.train.config import Config
from gradaccord.train.setup import Problem

LINES = 200  # of each text; the same ones, under the same masks, at every measurement
MAX_LENGTH = 128


class Forgetting:
    """Masked-LM losses on the texts of `probe.masked_lm`, by the name given to each."""

    def __init__(self, config: Config, problem: Problem) -> None:
        self.trunk: Any = problem.model.trunk
        lines = {
            name: _lines(name, source, config.data_folder)
            for name, source in config.probe.masked_lm.items()
        }
        tokens = problem.tokens
        if isinstance(self.trunk, CharacterTrunk):
            self.head = _character_head(config, self.trunk)
            ids = {
                k: [e.ids for e in tokens.encode(v, max_length=MAX_LENGTH)] for k, v in lines.items()
            }
            self.texts = {name: MaskedLM(own, tokens.masking()) for name, own in ids.items()}
        else:
            self.head = _head(config, self.trunk)
            tokenizer = getattr(tokens, "tokenizer", None) or tokens
            self.texts = {
                name: MaskedLM(own, tokenizer, max_length=MAX_LENGTH) for name, own in lines.items()
            }

    def measure(self) -> dict[str, float]:
        """Every text's loss, with the trunk's weights as they are."""
        if isinstance(self.trunk, CharacterTrunk):
            return {
                name: probe.measure(self.trunk, self._characters) for name, probe in self.texts.items()
            }
        model = with_encoder(self.head, self.trunk.model)
        return {name: probe.measure(model) for name, probe in self.texts.items()}

    def _characters(self, ids: torch.Tensor, attention: torch.Tensor) -> torch.Tensor:
        states = self.trunk({"input_ids": ids, "attention_mask": attention}).tokens
        logits: torch.Tensor = self.head.to(ids.device)(states)
        return logits


def _character_head(config: Config, trunk: CharacterTrunk) -> nn.Module:
    """The layer that the characters were pretrained with, which is not trained on."""
    if trunk.lm is None:
        raise ValueError(
            f"`probe.masked_lm` needs the layer that predicted masked characters, and the model "
            f"{config.model.name!r} was loaded without it: use the model `characters`."
        )
    return trunk.masked_lm_head().requires_grad_(False)


def _head(config: Config, trunk: Any) -> Any:
    """The pretrained masked-LM model whose head is kept; one without a trained head is refused."""
    source = config.probe.masked_lm_model
    if source is None:
        source = config.model.name if Path(config.model.name).is_dir() else None
    if source is None:
        raise ValueError(
            f"`probe.masked_lm` needs a masked-LM head, and the model {config.model.name!r} brings "
            "none: name the pretrained checkpoint in `probe.masked_lm_model`."
        )
    from gradaccord.models.trunks.huggingface import pretrained

    model, missing = pretrained("AutoModelForMaskedLM", source)
    if missing:
        raise ValueError(
            f"`probe.masked_lm_model` is {source!r}, which has no trained masked-LM head "
            f"({min(missing)} is missing): name the checkpoint that was pretrained."
        )
    return model


def _lines(name: str, source: str, folder: Path | None) -> list[str]:
    """From a file of lines, or from a data set."""
    if Path(source).is_file():
        lines = [line.strip() for line in Path(source).read_text(encoding="utf-8").splitlines()]
        found = [line for line in lines if line]
    else:
        dataset = load(source, folder=folder)
        split = "test" if "test" in dataset.splits else next(iter(dataset.splits))
        found = [text_of(example) for example in dataset.splits[split]]
    if not found:
        raise ValueError(f"`probe.masked_lm.{name}` ({source}) holds no text.")
    return found[:LINES]
