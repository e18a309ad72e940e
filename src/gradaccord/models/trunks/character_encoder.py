"""A small convolutional encoder of characters."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import dropout, relu


class CharacterEncoder(nn.Module):
    """Token numbers [N, L], 0 for padding, to one vector per character [N, L, width].

    Residual convolutions, so that the cost is linear in the length and a second derivative exists.
    Dropout drops whole characters: to draw a random number for every value would take a third as
    long as the convolution itself.
    """

    def __init__(
        self, characters: int, *, width: int = 96, depth: int = 2, reach: int = 3, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.width = width
        self.dropout = dropout
        self.embedding = nn.Embedding(characters, width, padding_idx=0)
        self.blocks = nn.ModuleList(_Block(width, reach) for _ in range(depth))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Padding gets the zero vector, and no character's vector depends on how much there is."""
        present = (tokens != 0).unsqueeze(-1).to(self.embedding.weight.dtype)
        hidden: torch.Tensor = self.embedding(tokens)
        hidden = hidden * dropout(present, self.dropout, self.training)
        for block in self.blocks:
            hidden = block(hidden, present)
        return hidden


class _Block(nn.Module):
    """h + relu(conv(norm(h))) over `reach` neighbours on either side, padding kept at zero."""

    def __init__(self, width: int, reach: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.convolution = nn.Conv1d(width, width, 2 * reach + 1, padding=reach)

    def forward(self, hidden: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        normed = self.norm(hidden) * present
        changed = relu(self.convolution(normed.transpose(1, 2))).transpose(1, 2)
        return hidden + changed * present
