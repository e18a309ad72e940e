"""Quadratic bowls and a small network for the trajectory methods."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import nn

from gradaccord.core.method import Method

LR = 0.05


TASKS = ("a", "b", "c")


class Bowls(nn.Module):
    """L_t = 1/2 (x - c_t)' A_t (x - c_t), so that an SGD step is x <- x - LR A_t (x - c_t)."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.x = nn.Parameter(torch.randn(5, dtype=torch.float64, generator=generator))
        self.A, self.c = {}, {}
        for task in TASKS:
            root = torch.randn(5, 5, dtype=torch.float64, generator=generator)
            self.A[task] = root @ root.T / 5 + torch.eye(5)
            self.c[task] = torch.randn(5, dtype=torch.float64, generator=generator)

    def loss(self, task: str) -> torch.Tensor:
        away = self.x - self.c[task]
        return 0.5 * away @ self.A[task] @ away

    def after(self, x: torch.Tensor, tasks: Iterator[str] | list[str]) -> torch.Tensor:
        """Where one SGD step on each of `tasks` leads from x: a product of affine maps."""
        for task in tasks:
            contraction = torch.eye(5, dtype=torch.float64) - LR * self.A[task]
            x = self.c[task] + contraction @ (x - self.c[task])
        return x


class Net(nn.Module):
    """A small encoder with an embedding large enough to be stored by rows, and two heads."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(2048, 4)
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 4))
        self.heads = nn.ModuleDict({task: nn.Linear(4, 2) for task in TASKS})

    def loss(self, task: str, step: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(step)
        words = torch.randint(2048, (6, 3), generator=generator)
        labels = torch.randint(2, (6,), generator=generator)
        return nn.functional.cross_entropy(
            self.heads[task](self.body(self.words(words).mean(1))), labels
        )


def task_of(step: int, inner_steps: int = 1) -> str:
    return TASKS[step // inner_steps % len(TASKS)]


def descend(bowls: Bowls, method: Method, tasks: list[str]) -> None:
    optimizer = torch.optim.SGD(bowls.parameters(), lr=LR)
    for task in tasks:
        method.backward({task: partial(bowls.loss, task)})
        optimizer.step()
        method.after_step()


def train(
    net: Net, optimizer: torch.optim.Optimizer, method: Method | None, steps: range, inner: int = 1
) -> None:
    """Train on one task a step; without a method, the plain loop that everyone writes."""
    for step in steps:
        torch.manual_seed(step)  # for dropout
        task = task_of(step, inner)
        if method is None:
            optimizer.zero_grad()
            net.loss(task, step).backward()
            optimizer.step()
        else:
            method.backward({task: partial(net.loss, task, step)})
            optimizer.step()
            method.after_step()
            optimizer.zero_grad()


def weights_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def same(first: nn.Module, second: nn.Module) -> bool:
    return all(torch.equal(p, q) for p, q in zip(first.parameters(), second.parameters(), strict=True))
