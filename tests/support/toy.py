"""Small real problems that many tests share: a trunk with heads, and vectors as tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F


class Trunk(nn.Module):
    """Embedding, two layers, one head per task; in float64 unless said otherwise."""

    def __init__(
        self,
        tasks: Sequence[str] = ("a", "b", "c"),
        rows: int = 50,
        dropout: float = 0.0,
        sparse: bool = False,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(rows, 6, sparse=sparse)
        self.layers = nn.ModuleList([nn.Linear(6, 8), nn.Linear(8, 6)])
        self.dropout = nn.Dropout(dropout)
        self.heads = nn.ModuleDict({task: nn.Linear(6, 3) for task in tasks})

    def features(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.words(tokens).mean(1)
        for layer in self.layers:
            hidden = self.dropout(torch.tanh(layer(hidden)))
        return hidden

    def forward(self, tokens: torch.Tensor, task: str) -> torch.Tensor:
        return self.heads[task](self.features(tokens))


def trunk(seed: int = 0, dtype: torch.dtype = torch.float64, **options: object) -> Trunk:
    torch.manual_seed(seed)
    return Trunk(**options).to(dtype)  # type: ignore[arg-type]


def batch(seed: int, size: int = 7, rows: int = 50) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, rows, (size, 4), generator=generator)
    return tokens, torch.randint(0, 3, (size,), generator=generator)


def loss_of(model: nn.Module, task: str, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(tokens, task), labels)


def losses_of(
    model: nn.Module, tasks: Sequence[str] = ("a", "b", "c"), seed: int = 0, rows: int = 50
) -> dict[str, Callable[[], torch.Tensor]]:
    return {
        task: partial(loss_of, model, task, *batch(100 * seed + i, rows=rows))
        for i, task in enumerate(tasks)
    }


class Vectors(nn.Module):
    """One weight vector; task t's loss is g_t . w, so that its gradient is exactly g_t."""

    def __init__(self, gradients: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(gradients.shape[1], dtype=gradients.dtype))
        self.gradients = gradients

    def losses(self, names: Sequence[str] | None = None) -> dict[str, Callable[[], torch.Tensor]]:
        names = names or [f"t{i}" for i in range(len(self.gradients))]
        return {
            name: (lambda g=gradient: (self.weight * g).sum() + 1.0)
            for name, gradient in zip(names, self.gradients, strict=True)
        }


def grads(model: nn.Module) -> dict[str, torch.Tensor | None]:
    return {name: p.grad for name, p in model.named_parameters()}


def autograd_of(model: nn.Module, loss: torch.Tensor) -> dict[str, torch.Tensor | None]:
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True))


def assert_grads_close(
    actual: dict[str, torch.Tensor | None],
    expected: dict[str, torch.Tensor | None],
    tolerance: float = 1e-12,
) -> None:
    for name, reference in expected.items():
        found = actual[name]
        if reference is None:
            assert found is None, name
            continue
        assert found is not None, name
        found = found.to_dense() if found.is_sparse else found
        reference = reference.to_dense() if reference.is_sparse else reference
        torch.testing.assert_close(found, reference, rtol=tolerance, atol=tolerance, msg=name)
