"""Small models and batches on which pairs and Hessian products are checked."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

SETTINGS = {
    "exact": {"mode": "exact"},
    "exact, symmetric": {"mode": "exact", "scheme": "symmetric"},
    "one-sided": {"mode": "difference"},
    "centred": {"mode": "difference", "scheme": "centred"},
    "difference, symmetric": {"mode": "difference", "scheme": "symmetric"},
}


class Bowls(nn.Module):
    """Two quadratic losses in one vector: L_i = 1/2 x'A_i x - b_i'x."""

    def __init__(self, seed: int = 0, size: int = 5, curvature: float = 1.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        root = torch.randn(2, size, size, generator=generator, dtype=torch.float64)
        self.A = curvature * (root @ root.mT) / size
        self.b = torch.randn(2, size, generator=generator, dtype=torch.float64)
        self.x = nn.Parameter(torch.randn(size, generator=generator, dtype=torch.float64))

    def loss(self, i: int) -> torch.Tensor:
        return 0.5 * self.x @ self.A[i] @ self.x - self.b[i] @ self.x

    def gradient(self, i: int) -> torch.Tensor:
        return self.A[i] @ self.x.detach() - self.b[i]

    def pair(self):
        return {"one": partial(self.loss, 0), "two": partial(self.loss, 1)}


class Encoder(nn.Module):
    """A small transformer, whose attention is a fused kernel by default."""

    def __init__(self, dropout: float = 0.0, width: int = 16) -> None:
        super().__init__()
        self.words = nn.Embedding(30, width)
        layer = nn.TransformerEncoderLayer(
            width, 2, 2 * width, dropout, activation="gelu", batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.words(x)).mean(1))

    @staticmethod
    def inputs(generator: torch.Generator, size: int) -> torch.Tensor:
        return torch.randint(0, 30, (size, 6), generator=generator)


class Conv(nn.Module):
    """A smooth convolutional network with batch norm."""

    def __init__(self, dropout: float = 0.0, norm: bool = False) -> None:
        super().__init__()
        layers = [nn.Conv2d(1, 4, 3), nn.GELU(), nn.AvgPool2d(2), nn.Dropout(dropout)]
        if norm:
            layers.insert(1, nn.BatchNorm2d(4))
        self.body = nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * 9, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)

    @staticmethod
    def inputs(generator: torch.Generator, size: int) -> torch.Tensor:
        return torch.randn(size, 1, 8, 8, generator=generator)


def problem(kind, seed=0, size=8, dtype=torch.float64, **options):
    """A model and two batches."""
    torch.manual_seed(seed)
    model = kind(**options).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for _ in range(2):
        x = kind.inputs(generator, size)
        x = x.to(dtype) if x.is_floating_point() else x
        batches.append((x, torch.randint(0, 3, (size,), generator=generator)))
    return model, batches


def loss(model, x, y):
    return F.cross_entropy(model(x), y)


def pair_of(model, batches):
    return {name: partial(loss, model, *b) for name, b in zip(("one", "two"), batches, strict=True)}


def flat(tensors):
    return torch.cat([t.flatten() for t in tensors])


def grad_of(model):
    return flat([p.grad for p in model.parameters()])


def trained(model, batches, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        for batch in batches:
            optimizer.zero_grad()
            loss(model, *batch).backward()
            optimizer.step()
    model.zero_grad()
    return float(loss(model, *batches[0]).detach())


class FusedCrossEntropy(torch.autograd.Function):
    """A loss that computes its gradient on the way forward, as fused kernels do."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward((x.softmax(-1) - F.one_hot(y, x.shape[-1])) / len(y))
        return F.cross_entropy(x, y)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0], None


def delivered(model):
    """What stands in `.grad` of the trainable weights, as one vector."""
    parts = []
    for p in model.parameters():
        if p.requires_grad:
            grad = torch.zeros_like(p) if p.grad is None else p.grad
            parts.append((grad.to_dense() if grad.is_sparse else grad).flatten())
    return torch.cat(parts)


def error(found, expected):
    return float((found - expected).norm() / expected.norm())


def examples(seed, size=8, rows=20):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, rows, (size, 4), generator=generator)
    return x, torch.randint(0, 3, (size,), generator=generator)


def entropy(model, x, y):
    return F.cross_entropy(model(x), y)


def same(kind, *options):
    """One model in several forms, with the same weights in float64."""
    torch.manual_seed(0)
    models = [kind(option).double() for option in options]
    for model in models[1:]:
        model.load_state_dict(models[0].state_dict())
    return models


class Words(nn.Module):
    """An embedding with row-sparse gradients, which torch cannot differentiate twice."""

    def __init__(self, sparse, rows=20):
        super().__init__()
        self.words = nn.Embedding(rows, 5, sparse=sparse, padding_idx=0)
        self.more = nn.Embedding(rows, 5, sparse=sparse)
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.words(x) * self.more(x) + self.words(x.flip(1))).mean(1))
