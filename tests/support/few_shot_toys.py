"""A small smooth network, its tasks, and the inner loops written out naively for comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradaccord.meta import FOMAML, MAML, DotProd, MAMLPlusPlus, MetaSGD, Reptile, Task, TaskBatch

WAYS, SIDE, FILTERS = 3, 5, 4
Weights = dict[str, Tensor]


class Net(nn.Module):
    """Convolution, batch norm, tanh, linear; float64."""

    def __init__(self, seed: int = 0, tracks: bool = True) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.conv = nn.Conv2d(1, FILTERS, 3, padding=1)
        self.norm = nn.BatchNorm2d(FILTERS, track_running_stats=tracks)
        self.head = nn.Linear(FILTERS * SIDE * SIDE, WAYS)
        nn.init.normal_(self.norm.weight, 1, 0.3)
        nn.init.normal_(self.norm.bias, 0, 0.3)
        self.double()

    def forward(self, images: Tensor) -> Tensor:
        return self.head(torch.tanh(self.norm(self.conv(images))).flatten(1))


def outputs(w: Weights, images: Tensor) -> Tensor:
    """`Net` by hand, with batch statistics computed from their definition."""
    x = F.conv2d(images, w["conv.weight"], w["conv.bias"], padding=1)
    mean = x.mean((0, 2, 3), keepdim=True)
    variance = (x - mean).square().mean((0, 2, 3), keepdim=True)
    x = (x - mean) / (variance + 1e-5).sqrt()
    x = x * w["norm.weight"][:, None, None] + w["norm.bias"][:, None, None]
    return torch.tanh(x).flatten(1) @ w["head.weight"].T + w["head.bias"]


def loss(w: Weights, images: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(outputs(w, images), labels)


def batch(tasks: int = 3, seed: int = 0, shots: int = 2, queries: int = 3) -> TaskBatch:
    """Each class is a random image with noise."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    classes = draw(tasks, WAYS, 1, SIDE, SIDE)
    support = classes.repeat(1, shots, 1, 1, 1)
    query = classes.repeat(1, queries, 1, 1, 1)
    return TaskBatch(
        support + 0.5 * draw(*support.shape),
        torch.arange(WAYS).repeat(tasks, shots),
        query + 0.5 * draw(*query.shape),
        torch.arange(WAYS).repeat(tasks, queries),
    )


def leaves(model: nn.Module) -> Weights:
    return {n: p.detach().clone().requires_grad_() for n, p in model.named_parameters()}


def unrolled(
    w: Weights,
    tasks: Sequence[Task] | TaskBatch,
    steps: int,
    rate: Callable[[str, int], Any],
    *,
    at_step: Callable[[Weights, int], Weights] = lambda w, step: w,
    query_weights: Sequence[float] | None = None,
    adapted: Sequence[str] | None = None,
    first_order: bool = False,
    share: Callable[[list[Weights], int], list[Weights]] | None = None,
    loss: Callable[[Weights, Tensor, Tensor], Tensor] = loss,
) -> Tensor:
    """The mean query loss, with a graph through all inner steps of all tasks."""
    names = list(w) if adapted is None else adapted
    query_weights = [0.0] * (steps - 1) + [1.0] if query_weights is None else query_weights
    own = [dict(w) for _ in tasks]
    total = torch.zeros((), dtype=torch.float64)
    for k in range(steps):
        gradients = []
        for theta, task in zip(own, tasks, strict=True):
            value = loss(at_step(theta, k), task.support, task.support_labels)
            found = torch.autograd.grad(value, [theta[n] for n in names], create_graph=True)
            found = [g.detach() for g in found] if first_order else found
            gradients.append(dict(zip(names, found, strict=True)))
        if share is not None:
            gradients = share(gradients, k)
        own = [
            theta | {n: theta[n] - rate(n, k) * g[n] for n in names}
            for theta, g in zip(own, gradients, strict=True)
        ]
        for theta, task in zip(own, tasks, strict=True):
            total = total + query_weights[k] * loss(at_step(theta, k), task.query, task.query_labels)
    return total / len(own)


class NaiveSharing:
    """Algorithm 1 of Chang & Lipson 2020, line by line, on flat vectors."""

    def __init__(self, steps: int) -> None:
        self.m = torch.zeros(steps, dtype=torch.float64, requires_grad=True)
        self.lam = torch.zeros(steps, dtype=torch.float64, requires_grad=True)
        self.means: dict[int, Tensor] = {}

    def __call__(self, gradients: list[Weights], k: int) -> list[Weights]:
        flat = [torch.cat([g.reshape(-1) for g in each.values()]) for each in gradients]
        total = sum(flat[1:], flat[0])
        g_k = total / torch.linalg.vector_norm(total)
        if k in self.means:
            keep = torch.sigmoid(self.m[k])
            mean = keep * g_k + (1 - keep) * self.means[k]
        else:
            mean = g_k
        self.means[k] = mean.detach()
        weight = torch.sigmoid(self.lam[k])
        found = []
        for vector, each in zip(flat, gradients, strict=True):
            direction = weight * mean + (1 - weight) * vector
            parts = direction.split([g.numel() for g in each.values()])
            found.append({n: p.view_as(each[n]) for n, p in zip(each, parts, strict=True)})
        return found


def assert_gradients(
    learner: nn.Module, expected: dict[str, Tensor | None], least: float = 1e-10
) -> None:
    """Every trainable parameter of the learner has the expected gradient, to 1e-10 of its length."""
    named = dict(learner.named_parameters())
    assert set(named) == set(expected)
    for name, gradient in expected.items():
        found = named[name].grad
        if gradient is None:
            assert found is None, name
            continue
        assert found is not None, name
        error = float((found - gradient).norm())
        assert error <= least * max(float(gradient.norm()), 1e-3), (name, error)


K, LR = 3, 0.3


def gradients_of(objective: Tensor, given: dict[str, Tensor]) -> dict[str, Tensor | None]:
    found = torch.autograd.grad(objective, list(given.values()), allow_unused=True)
    return dict(zip(given, found, strict=True))


def of_model(found: dict[str, Tensor | None]) -> dict[str, Tensor | None]:
    return {f"model.{name}": gradient for name, gradient in found.items()}


def naive_mamlpp(learner: MAMLPlusPlus, tasks: Any, **options: Any) -> dict[str, Tensor | None]:
    w = leaves(learner.model)
    adapted = [n for n in w if not n.startswith("norm")]
    rates = {n: learner.rates[n].detach().clone().requires_grad_() for n in adapted}
    norms = {
        n: learner.norms.affine[n].detach().clone().requires_grad_() for n in w if n not in adapted
    }
    share = options.pop("share", None)
    objective = unrolled(
        w,
        tasks,
        K,
        lambda n, k: rates[n][k],
        at_step=lambda theta, k: theta | {n: steps[k] for n, steps in norms.items()},
        adapted=adapted,
        share=share,
        **options,
    )
    given = of_model(w)
    given |= {f"rates.{n.replace('.', '/')}": r for n, r in rates.items()}
    given |= {f"norms.affine.{n.replace('.', '/')}": r for n, r in norms.items()}
    if share is not None:
        given |= {"sharing.m": share.m, "sharing.lam": share.lam}
    return gradients_of(objective, given)


def perturb(learner: nn.Module) -> None:
    """Make what starts equal differ, by step and by tensor."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in learner.named_parameters():
            if not name.startswith("model."):
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.add_(noise, alpha=0.1)


Make = Callable[..., Any]


KINDS: dict[str, Make] = {
    "MAML": MAML,
    "FOMAML": FOMAML,
    "MetaSGD": MetaSGD,
    "MAML++": partial(MAMLPlusPlus, epoch_length=2, multi_step_epochs=2, second_order_from=1),
    "MAML++ running": partial(MAMLPlusPlus, statistics="running", epoch_length=2),
    "Reptile": partial(Reptile, inner_lr=0.02, inner_batch=4),
    "Reptile reset": partial(Reptile, inner_lr=0.02, inner_batch=4, optimizer_state="reset"),
    "DotProd inner": partial(DotProd, inner_lr=0.02, inner_batch=3),
    "DotProd outer": partial(DotProd, reading="outer", inner_lr=0.02, inner_batch=None),
    "MAML shared": partial(MAML, share=True),
    "FOMAML shared": partial(FOMAML, share=True),
    "MetaSGD shared": partial(MetaSGD, share=True),
    "MAML++ shared": partial(MAMLPlusPlus, share=True, epoch_length=2),
}


def made(kind: str, **options: Any) -> tuple[Any, torch.optim.Optimizer]:
    learner = KINDS[kind](Net(), inner_steps=3, **options)
    return learner, torch.optim.Adam(learner.parameters(), lr=0.01)


def train(learner: Any, optimizer: torch.optim.Optimizer, iterations: range) -> None:
    for iteration in iterations:
        learner.backward(batch(seed=iteration))
        optimizer.step()
        learner.after_step()
        optimizer.zero_grad()


def same(one: Any, two: Any) -> bool:
    assert set(one) == set(two)
    return all(torch.equal(value, two[name]) for name, value in one.items())


def held_gradients(learner: Any) -> list[Tensor | None]:
    return [None if p.grad is None else p.grad.clone() for p in learner.parameters()]


def assert_each_close(ours: list[Tensor | None], true: list[Tensor | None]) -> None:
    for one, other in zip(ours, true, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
