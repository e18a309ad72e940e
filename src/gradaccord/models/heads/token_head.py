"""A head that reads every token: the scores of spans and of tags."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from gradaccord.models.heads.layers import layers
from gradaccord.models.trunks.trunk import Batch, Trunk


class TokenHead(nn.Module):
    """Dropout and a linear layer over each token's state."""

    def __init__(
        self, hidden: int, outputs: int, *, layer_sizes: Sequence[int] = (), dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.layers = layers(hidden, outputs, layer_sizes, dropout)

    def forward(self, trunk: Trunk, batch: Batch) -> torch.Tensor:
        """[rows, length, outputs]."""
        output: torch.Tensor = self.layers(trunk(batch).tokens)
        return output
