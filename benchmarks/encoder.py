"""The models of the benchmarks: encoders of 12.6 M and 0.2 M shared parameters with small heads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

CLASSES = 3


@dataclass(frozen=True)
class Shape:
    """What an encoder is made of. Without positions or dropout, it computes least besides gradients."""

    vocabulary: int
    hidden: int
    layers: int
    dropout: float = 0.0
    positions: int = 0


SHAPES = {
    "BERT-like": Shape(vocabulary=30_522, hidden=256, layers=6, dropout=0.1, positions=512),
    "plain": Shape(vocabulary=30_522, hidden=256, layers=6),
    "small": Shape(vocabulary=1_000, hidden=64, layers=3),
}
VOCABULARY = SHAPES["BERT-like"].vocabulary


class Encoder(nn.Module):
    """Embeddings, transformer layers, mean pooling, one linear head per task."""

    def __init__(self, n_tasks: int, shape: Shape = SHAPES["BERT-like"]) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.hidden)
        self.positions = nn.Embedding(shape.positions, shape.hidden) if shape.positions else None
        layer = nn.TransformerEncoderLayer(
            shape.hidden,
            nhead=4,
            dim_feedforward=4 * shape.hidden,
            dropout=shape.dropout,
            activation="gelu",
            batch_first=True,
        )
        self.encoder = nn.TransformerEncoder(layer, shape.layers, enable_nested_tensor=False)
        self.heads = nn.ModuleDict(
            {f"task{t}": nn.Linear(shape.hidden, CLASSES) for t in range(n_tasks)}
        )

    def features(self, tokens: torch.Tensor) -> torch.Tensor:
        embedded = self.words(tokens)
        if self.positions is not None:
            embedded = embedded + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return self.encoder(embedded).mean(1)

    def loss(self, task: str, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.heads[task](self.features(tokens)), labels)

    def losses(self, tokens: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        features = self.features(tokens)
        return {
            task: nn.functional.cross_entropy(head(features), labels)
            for task, head in self.heads.items()
        }

    def shared(self) -> list[nn.Parameter]:
        return [p for name, p in self.named_parameters() if not name.startswith("heads")]


def problem(
    n_tasks: int, name: str = "BERT-like"
) -> tuple[Encoder, dict[str, partial[torch.Tensor]], partial[dict[str, torch.Tensor]]]:
    """The model, a loss per task on its own batch of 8 x 64 tokens, and one shared batch."""
    torch.manual_seed(0)
    shape = SHAPES[name]
    model = Encoder(n_tasks, shape)

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randint(0, shape.vocabulary, (8, 64)), torch.randint(0, CLASSES, (8,))

    own = {task: partial(model.loss, task, *batch()) for task in model.heads}
    return model, own, partial(model.losses, *batch())
