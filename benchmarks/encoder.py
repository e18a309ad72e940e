"""The model of the benchmarks: a BERT-like encoder of 12.6 M shared parameters with small heads."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

VOCABULARY, HIDDEN, LAYERS, CLASSES = 30_522, 256, 6, 3


class Encoder(nn.Module):
    """Embeddings, transformer layers, mean pooling, one linear head per task."""

    def __init__(self, n_tasks: int) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, HIDDEN)
        self.positions = nn.Embedding(512, HIDDEN)
        layer = nn.TransformerEncoderLayer(
            HIDDEN, nhead=4, dim_feedforward=4 * HIDDEN, activation="gelu", batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.heads = nn.ModuleDict({f"task{t}": nn.Linear(HIDDEN, CLASSES) for t in range(n_tasks)})

    def features(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.encoder(self.words(tokens) + self.positions(places)).mean(1)

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
    n_tasks: int,
) -> tuple[Encoder, dict[str, partial[torch.Tensor]], partial[dict[str, torch.Tensor]]]:
    """The model, a loss per task on its own batch of 8 x 64 tokens, and one shared batch."""
    torch.manual_seed(0)
    model = Encoder(n_tasks)

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randint(0, VOCABULARY, (8, 64)), torch.randint(0, CLASSES, (8,))

    own = {task: partial(model.loss, task, *batch()) for task in model.heads}
    return model, own, partial(model.losses, *batch())
