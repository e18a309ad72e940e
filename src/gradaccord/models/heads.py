"""Heads on the trunk, one per task: over sequences, over tokens, and to predict masked tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from gradaccord.data.encoded import Batch
from gradaccord.models.trunks.trunk import Trunk


def layers(inputs: int, outputs: int, hidden: Sequence[int] = (), dropout: float = 0.1) -> nn.Module:
    """Dropout and a linear layer; with `hidden` sizes, dropout, linear and GELU for each before it.

    The minBERT report's hidden-layer heads: (H,) for single sentences, (H, H // 4) for pairs.
    """
    parts: list[nn.Module] = []
    for size in hidden:
        parts += [nn.Dropout(dropout), nn.Linear(inputs, size), nn.GELU()]
        inputs = size
    return nn.Sequential(*parts, nn.Dropout(dropout), nn.Linear(inputs, outputs))


class SequenceHead(nn.Module):
    """Reads a row's pooled vector u; of a pair encoded separately u, v and |u - v|, for agreement."""

    def __init__(
        self,
        hidden: int,
        outputs: int,
        *,
        pair: bool = False,
        layer_sizes: Sequence[int] = (),
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.pair = pair
        self.layers = layers(hidden * (3 if pair else 1), outputs, layer_sizes, dropout)

    def forward(self, trunk: Trunk, batch: Batch) -> torch.Tensor:
        """[rows, outputs]."""
        pooled = trunk(batch).pooled
        if self.pair:
            first, second = pooled.view(-1, 2, pooled.shape[-1]).unbind(1)
            pooled = torch.cat([first, second, (first - second).abs()], -1)
        output: torch.Tensor = self.layers(pooled)
        return output


class TokenHead(nn.Module):
    """Reads every token, for spans and tags: dropout and a linear layer over its state."""

    def __init__(self, hidden: int, outputs: int, *, dropout: float = 0.1) -> None:
        super().__init__()
        self.layers = layers(hidden, outputs, (), dropout)

    def forward(self, trunk: Trunk, batch: Batch) -> torch.Tensor:
        """[rows, length, outputs]."""
        output: torch.Tensor = self.layers(trunk(batch).tokens)
        return output


class MaskedLMHead(nn.Module):
    """From states [N, hidden] to logits [N, tokens], by a Hugging Face masked-LM model.

    The model's encoder is taken out and what is left is run on the given states, so that any
    architecture's head works. Its decoder matrix is a copy, not tied to the word embeddings, which
    other tasks also train.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        decoder = model.get_output_embeddings()
        decoder.weight = nn.Parameter(decoder.weight.detach().clone())
        setattr(model, model.base_model_prefix, _Given())
        self.model: Any = model

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """The logits of each state."""
        given = getattr(self.model, self.model.base_model_prefix)
        given.states = states.unsqueeze(0)
        try:
            logits: torch.Tensor = self.model(return_dict=True).logits
        finally:
            given.states = None
        return logits.squeeze(0)


class _Given(nn.Module):
    """Takes the encoder's place, and returns the states it was given."""

    states: torch.Tensor | None = None

    def forward(self, *_: Any, **__: Any) -> Any:
        from transformers.modeling_outputs import BaseModelOutput

        return BaseModelOutput(last_hidden_state=self.states)  # type: ignore[arg-type]
