"""GradNorm: its formula, its layer, and losses that it cannot compare."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from toy import (
    Trunk,
    losses_of,
    trunk,
)

import gradaccord


def test_gradnorm_follows_its_formula():
    model = trunk()
    method = gradaccord.GradNorm(model, alpha=1.5, lr=0.1)
    weights = dict.fromkeys("abc", 1.0)
    first: dict[str, float] = {}
    for step in range(4):
        losses = losses_of(model, seed=step)
        lengths, values = {}, {}
        for task, loss in losses.items():
            value = loss()
            gradient = torch.autograd.grad(value, list(model.layers[1].parameters()))
            lengths[task] = float(torch.cat([g.flatten() for g in gradient]).norm())
            values[task] = value.item()
            first.setdefault(task, value.item())
        report = method.backward(losses)
        for i, task in enumerate("abc"):
            assert abs(float(report.weights[i]) - weights[task]) < 1e-9
            torch.testing.assert_close(
                model.heads[task].bias.grad,
                weights[task] * torch.autograd.grad(losses[task](), model.heads[task].bias)[0],
            )
        norms = {t: weights[t] * lengths[t] for t in "abc"}
        mean_norm = sum(norms.values()) / 3
        progress = {t: values[t] / first[t] for t in "abc"}
        mean_progress = sum(progress.values()) / 3
        for t in "abc":
            target = mean_norm * (progress[t] / mean_progress) ** 1.5
            sign = (norms[t] > target) - (norms[t] < target)
            weights[t] = max(weights[t] - 0.1 * sign * lengths[t], 1e-3)
        total = sum(weights.values())
        weights = {t: 3 * w / total for t, w in weights.items()}


def test_gradnorm_weights_change_and_sum_to_the_number_of_tasks():
    model = Trunk(tasks=("a", "b", "c"))
    method = gradaccord.GradNorm(model, lr=0.5)
    for step in range(5):
        method.backward(losses_of(model, seed=step))
    assert sum(method.weights.values()) == pytest.approx(3)
    assert max(method.weights.values()) - min(method.weights.values()) > 1e-3


class FourHeads(nn.Module):
    """Two layers that all tasks reach, then one that `a` and `b` alone do; `alone` reaches a head."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 6)
        self.second = nn.Linear(6, 6)
        self.branch = nn.Linear(6, 6)
        self.heads = nn.ModuleDict({task: nn.Linear(6, 1) for task in ("a", "b", "c", "d", "alone")})

    def loss(self, task, seed):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(8, 5, dtype=torch.float64, generator=generator)
        hidden = torch.tanh(self.second(torch.tanh(self.first(x))))
        if task in ("a", "b"):
            hidden = torch.tanh(self.branch(hidden))
        if task == "alone":
            hidden = hidden.detach()
        return ((self.heads[task](hidden) - 1) ** 2).mean()


def four_heads():
    torch.manual_seed(0)
    return FourHeads().double()


def test_gradnorm_compares_norms_in_the_last_layer_that_all_tasks_reach():
    """Against the formula on `second`; on `branch`, the last that two tasks reach, weights collapse."""
    model = four_heads()
    method = gradaccord.GradNorm(model, lr=0.1, alpha=1.5)
    weights, first = dict.fromkeys("abcd", 1.0), {}
    for step in range(6):
        losses = {t: partial(model.loss, t, 10 * step + i) for i, t in enumerate("abcd")}
        values, lengths = {}, {}
        for t, loss in losses.items():
            value = loss()
            gradient = torch.autograd.grad(value, list(model.second.parameters()))
            lengths[t] = float(torch.cat([g.flatten() for g in gradient]).norm())
            values[t] = value.item()
            first.setdefault(t, values[t])
        report = method.backward(losses)
        expected = torch.tensor([weights[t] for t in "abcd"], dtype=torch.float64)
        torch.testing.assert_close(report.weights, expected, rtol=1e-10, atol=1e-12)
        mean_norm = sum(weights[t] * lengths[t] for t in "abcd") / 4
        progress = {t: values[t] / first[t] for t in "abcd"}
        for t in "abcd":
            target = mean_norm * (progress[t] * 4 / sum(progress.values())) ** 1.5
            apart = weights[t] * lengths[t] - target
            weights[t] = max(weights[t] - 0.1 * ((apart > 0) - (apart < 0)) * lengths[t], 1e-3)
        weights = {t: 4 * w / sum(weights.values()) for t, w in weights.items()}


def test_gradnorm_asks_for_a_layer_where_none_is_reached_by_all_tasks():
    model = four_heads()
    losses = {t: partial(model.loss, t, i) for i, t in enumerate(("a", "c", "alone"))}
    with pytest.raises(ValueError, match=r"No layer is reached by all .* a, alone, c: give `layer`"):
        gradaccord.GradNorm(model).backward(losses)
    with pytest.raises(ValueError, match=r"`layer` is 'second', which the tasks a, alone, c do not"):
        gradaccord.GradNorm(model, layer="second").backward(losses)
    assert all(p.grad is None for p in model.parameters())


def test_gradnorm_leaves_a_task_without_gradient_out_of_the_means():
    """As if it were absent."""
    models = four_heads(), four_heads()
    methods = [gradaccord.GradNorm(model, lr=0.1) for model in models]
    for step in range(3):
        for method, model in zip(methods, models, strict=True):
            losses = {t: partial(model.loss, t, 10 * step + i) for i, t in enumerate("abc")}
            if step > 0 and model is models[0]:
                losses["c"] = lambda: 0 * models[0].loss("c", 0) + 1
            elif step > 0:
                del losses["c"]
            method.backward(losses)
    assert methods[0].weights == pytest.approx(methods[1].weights, rel=1e-12)


def test_16_gradnorm_with_negative_losses_inverts_its_rule():
    model = trunk()
    losses = losses_of(model)
    method = gradaccord.GradNorm(model)
    before = method.state_dict()
    losses["b"] = partial(lambda f: f() - 50, losses["b"])
    with pytest.raises(ValueError, match="Task 'b' has the loss -4.*positive"):
        method.backward(losses)
    assert all(p.grad is None for p in model.parameters())
    assert method.state_dict()["weights"] == before["weights"]
    with pytest.raises(ValueError, match="Task 'a' has the loss -1"):
        gradaccord.GradNorm(model, initial_losses={"a": -1.0})
