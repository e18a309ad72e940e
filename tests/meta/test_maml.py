"""MAML and FOMAML in float64: equal to plain autograd, to `higher`, and to finite differences."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from few_shot_toys import (
    LR,
    K,
    Net,
    assert_gradients,
    batch,
    gradients_of,
    leaves,
    of_model,
    outputs,
    unrolled,
)
from torch import nn
from torch.nn import functional as F

from gradaccord.meta import FOMAML, MAML, MAMLPlusPlus, MetaSGD, Task


@pytest.mark.parametrize("first_order", [False, True])
def test_maml_equals_autograd_through_the_unrolled_loop(first_order: bool) -> None:
    model, tasks = Net(), batch()
    w = leaves(model)
    expected = gradients_of(unrolled(w, tasks, K, lambda n, k: LR, first_order=first_order), w)
    learner = (FOMAML if first_order else MAML)(model, inner_lr=LR, inner_steps=K)
    report = learner.backward(tasks)
    assert_gradients(learner, of_model(expected))
    value = unrolled(w, tasks, K, lambda n, k: LR).detach()
    assert report.query_loss == pytest.approx(float(value), 1e-12)


@pytest.mark.parametrize("kind", [MAML, FOMAML])
def test_weights_that_are_not_adapted_still_learn(kind: Any) -> None:
    model, tasks = Net(), batch()
    w = leaves(model)
    head = ["head.weight", "head.bias"]
    objective = unrolled(w, tasks, K, lambda n, k: LR, adapted=head, first_order=kind is FOMAML)
    learner = kind(model, inner_lr=LR, inner_steps=K, adapted=lambda name: name.startswith("head"))
    learner.backward(tasks)
    assert_gradients(learner, of_model(gradients_of(objective, w)))


def test_maml_equals_higher() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        higher = pytest.importorskip("higher")
        model, tasks = Net(tracks=False), batch()
        optimizer = torch.optim.SGD(model.parameters(), lr=LR)
        for task in tasks:
            with higher.innerloop_ctx(model, optimizer, copy_initial_weights=False) as (copied, steps):
                for _ in range(K):
                    steps.step(F.cross_entropy(copied(task.support), task.support_labels))
                (F.cross_entropy(copied(task.query), task.query_labels) / len(tasks)).backward()
    expected = {n: p.grad.clone() for n, p in model.named_parameters()}
    learner = MAML(model, inner_lr=LR, inner_steps=K)
    learner.backward(tasks)
    assert_gradients(learner, of_model(expected))


@pytest.mark.parametrize("kind", [MAML, MetaSGD, MAMLPlusPlus])
@pytest.mark.parametrize("share", [False, True])
def test_meta_gradient_equals_finite_differences(kind: Any, share: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(25, 2), nn.Tanh(), nn.BatchNorm1d(2), nn.Linear(2, 3))
    tasks = batch(tasks=2)
    options = {"multi_step_epochs": 0} if kind is MAMLPlusPlus else {}
    learner = kind(model.double(), inner_lr=LR, inner_steps=2, share=share, **options)
    learner.backward(tasks)
    learner.backward(tasks)  # with sharing: the second has a mean to start from
    start = copy.deepcopy(learner.state_dict())
    learner.backward(tasks)
    found = {n: p.grad for n, p in learner.named_parameters() if p.grad is not None}
    checked = 0
    for name, parameter in learner.named_parameters():
        if name not in found:
            continue
        for place in range(0, parameter.numel(), max(1, parameter.numel() // 3)):
            values = []
            for side in (1e-5, -1e-5):
                learner.load_state_dict(start)
                with torch.no_grad():
                    parameter.view(-1)[place] += side
                values.append(learner.backward(tasks).query_loss)
            slope = (values[0] - values[1]) / 2e-5
            assert float(found[name].view(-1)[place]) == pytest.approx(slope, rel=1e-6, abs=1e-9), name
            checked += 1
    assert checked >= 16


def test_tasks_of_different_sizes_and_a_loss_of_the_users_own() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    tasks = [
        Task(*(torch.randn(n, 1, dtype=torch.float64) for n in (4, 4, 6, 6))),
        Task(*(torch.randn(n, 1, dtype=torch.float64) for n in (7, 7, 2, 2))),
    ]
    learner = MAML(model, inner_lr=0.05, inner_steps=2, loss=F.mse_loss)
    report = learner.backward(tasks)
    total = torch.zeros((), dtype=torch.float64)
    for task in tasks:
        w = list(model.parameters())
        for _ in range(2):
            hidden = torch.tanh(task.support @ w[0].T + w[1]) @ w[2].T + w[3]
            inner = (hidden - task.support_labels).square().mean()
            found = torch.autograd.grad(inner, w, create_graph=True)
            w = [v - 0.05 * g for v, g in zip(w, found, strict=True)]
        hidden = torch.tanh(task.query @ w[0].T + w[1]) @ w[2].T + w[3]
        total = total + (hidden - task.query_labels).square().mean() / 2
    expected = torch.autograd.grad(total, list(model.parameters()))
    names = [n for n, _ in learner.named_parameters()]
    assert_gradients(learner, dict(zip(names, expected, strict=True)))
    assert torch.isnan(torch.tensor(report.query_accuracy))


def test_the_hand_written_network_is_the_module() -> None:
    model = Net()
    images = batch().support[0]
    assert torch.allclose(outputs(leaves(model), images), model(images), rtol=1e-12, atol=1e-13)
