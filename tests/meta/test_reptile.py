"""Reptile equals torch's optimisers, step by step."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from few_shot_toys import (
    Net,
    batch,
    leaves,
)
from torch import nn
from torch.nn import functional as F

from gradaccord.meta import Reptile, Task
from gradaccord.meta.episodes.minibatches import minibatches


def reptile_by_hand(model: nn.Module, task: Task, optimizer: Any, drawn: Any) -> None:
    for places in drawn:
        optimizer.zero_grad()
        F.cross_entropy(model(task.support[places]), task.support_labels[places]).backward()
        optimizer.step()


@pytest.mark.parametrize("inner", ["adam", "sgd"])
@pytest.mark.parametrize("size", [None, 4])
def test_reptile_equals_torch_optimisers_step_by_step(inner: str, size: int | None) -> None:
    model, tasks = Net(tracks=False), batch()
    learner = Reptile(
        model, inner_optimizer=inner, inner_lr=0.01, inner_batch=size, optimizer_state="reset"
    )
    learner.backward(tasks)
    mean = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
    for place, task in enumerate(tasks):
        own = copy.deepcopy(model)
        optimizer = (
            torch.optim.Adam(own.parameters(), lr=0.01, betas=(0.0, 0.999))
            if inner == "adam"
            else torch.optim.SGD(own.parameters(), lr=0.01)
        )
        drawn = list(minibatches(len(task.support), size, 5, learner._generator(place)))
        assert len(drawn) == 5
        reptile_by_hand(own, task, optimizer, drawn)
        for name, parameter in own.named_parameters():
            mean[name] += (model.get_parameter(name) - parameter).detach() / len(tasks)
    # Adam turns the convolution's bias, whose gradient is pure rounding before a norm, into steps.
    named = dict(learner.named_parameters())
    for name, expected in mean.items():
        if name != "conv.bias" or inner == "sgd":
            assert torch.allclose(named[f"model.{name}"].grad, expected, rtol=1e-9, atol=1e-13), name


def test_reptile_with_sgd_outside_is_the_papers_update() -> None:
    model, tasks = Net(), batch()
    learner = Reptile(model, inner_optimizer="sgd", inner_lr=0.1, inner_batch=None)
    before = leaves(model)
    ends = [learner.adapt(task.support, task.support_labels) for task in tasks]
    learner.backward(tasks)
    torch.optim.SGD(learner.parameters(), lr=0.7).step()
    for name, parameter in model.named_parameters():
        mean = torch.stack([end[name] - before[name] for end in ends]).mean(0)
        assert torch.allclose(parameter, before[name] + 0.7 * mean, rtol=1e-12, atol=1e-14)


def test_reptiles_second_moments_carry_over_between_tasks_only_if_kept() -> None:
    """Pitfall: they do in the original code, and differ from the paper's fresh optimiser."""
    tasks = batch(tasks=2)
    model = Net(tracks=False)
    kept = Reptile(model, inner_lr=0.02, inner_batch=None, optimizer_state="keep")
    own = copy.deepcopy(model)
    optimizer = torch.optim.Adam(own.parameters(), lr=0.02, betas=(0.0, 0.999))
    for iteration in range(2):
        kept.backward(tasks)
        mean = {n: torch.zeros_like(p) for n, p in own.named_parameters()}
        for task in tasks:
            own.load_state_dict(model.state_dict())
            for _ in range(5):
                optimizer.zero_grad()
                F.cross_entropy(own(task.support), task.support_labels).backward()
                optimizer.step()
            for name, parameter in own.named_parameters():
                mean[name] += (model.get_parameter(name) - parameter).detach() / 2
        for name in ("conv.weight", "norm.weight", "head.weight", "head.bias"):
            found = model.get_parameter(name).grad
            assert torch.allclose(found, mean[name], rtol=1e-9, atol=1e-13), (iteration, name)
    reset = Reptile(Net(tracks=False), inner_lr=0.02, inner_batch=None, optimizer_state="reset")
    reset.backward(tasks)
    assert not torch.allclose(reset.model.head.weight.grad, model.head.weight.grad, rtol=1e-3)


def test_reptile_reports_nan_without_queries() -> None:
    report = Reptile(Net()).backward(batch(queries=0))
    assert report.query_loss != report.query_loss
    assert report.to_floats()["gradients"] == 15
