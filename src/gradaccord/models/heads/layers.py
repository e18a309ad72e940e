"""What heads are built of: dropout and a linear layer, or a few hidden layers before it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from gradaccord.models.trunks.trunk import Batch, Trunk


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
    """Reads a row's pooled vector; a row of several sequences by their vectors side by side.

    Pairs encoded apart: u, v and their distance |u - v|, so that the head can see agreement.
    """

    def __init__(
        self,
        hidden: int,
        outputs: int,
        *,
        sequences: int = 1,
        layer_sizes: Sequence[int] = (),
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.sequences = sequences
        inputs = hidden * (3 if sequences == 2 else sequences)
        self.layers = layers(inputs, outputs, layer_sizes, dropout)

    def forward(self, trunk: Trunk, batch: Batch) -> torch.Tensor:
        """[rows, outputs]."""
        pooled = trunk(batch).pooled
        if self.sequences == 2:
            first, second = pooled.view(-1, 2, pooled.shape[-1]).unbind(1)
            pooled = torch.cat([first, second, (first - second).abs()], -1)
        elif self.sequences > 1:
            pooled = pooled.reshape(-1, self.sequences * pooled.shape[-1])
        output: torch.Tensor = self.layers(pooled)
        return output
