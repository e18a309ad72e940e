"""What is not finite in `.grad` is always reported."""

from __future__ import annotations

import pytest
import torch
from copies_problems import TRAJECTORIES, given, length_at_zero, made
from torch import nn
from toy import losses_of, trunk

import gradaccord
from gradaccord.methods.combine.combination import Combination


@pytest.mark.parametrize(
    "name", ["Sum", "PCGrad", "GradVac", "RLW", "FAMO", "PairedSum", "SAM", *TRAJECTORIES]
)
def test_nan_in_grad_is_never_reported_as_finite(name):
    model = trunk()
    assert made(name, model)[0].backward(given(name, model, 0)).finite
    report = made(name, model)[0].backward({"a": lambda: length_at_zero(model)})
    assert torch.isfinite(report.losses).all()
    assert not report.finite
    assert report.to_floats()["finite"] == 0


def test_sum_that_measures_nothing_still_sees_nan():
    model = trunk()
    report = gradaccord.Sum(model, measure=False).backward({"a": lambda: length_at_zero(model)})
    assert not report.finite
    assert gradaccord.Sum(model, measure=False).backward(losses_of(model)).finite


def test_a_sum_that_overflows_half_precision_is_not_finite():
    """Each task's gradient is finite; what is in `.grad` is not."""
    weight = nn.Parameter(torch.ones(3, dtype=torch.float16))
    method = gradaccord.Sum([("weight", weight)])
    report = method.backward({name: lambda: (weight.float() * 60000).sum() for name in "ab"})
    assert bool(torch.isinf(weight.grad).any())
    assert not report.finite


@pytest.mark.parametrize("sparse", [False, True])
def test_nan_in_the_rows_of_an_embedding_is_seen(sparse):
    table = nn.Embedding(4096, 3, sparse=sparse)
    method = gradaccord.Sum(table, measure=False)
    rows = torch.tensor([5, 7])
    assert method.backward({"a": lambda: table(rows).sum()}).finite
    report = method.backward({"a": lambda: (table(rows) - table(rows).detach()).square().sum().sqrt()})
    assert bool(torch.isnan(table.weight.grad.to_dense()).any())
    assert not report.finite


def test_large_numbers_in_float64_are_finite():
    weight = nn.Parameter(torch.ones(3, dtype=torch.float64))
    method = gradaccord.Sum([("weight", weight)], measure=False)
    assert method.backward({"a": lambda: (weight * 1e200).sum()}).finite


class Heavy(Combination):
    """A method with one weight for all, however large."""

    weight = 1.0

    def weigh(self, measured):
        return torch.full(measured.grams.shape[:2], self.weight, dtype=torch.float64)


@pytest.mark.parametrize("scale", [1.0, 1024.0])
@pytest.mark.parametrize(
    ("dtype", "slope", "weight", "fits"),
    [
        (torch.float32, 1.0, 1.0, True),
        (torch.float32, 1e10, 1e20, True),
        (torch.float32, 1e10, 3e28, False),
        (torch.float32, 1e-3, 1e30, True),
        (torch.float32, 1e3, 1e36, False),
        (torch.float64, 1e10, 3e28, True),
        (torch.float16, 20000.0, 1.0, True),
        (torch.float16, 40000.0, 1.0, False),
    ],
)
def test_what_overflows_near_the_largest_number_is_not_finite(dtype, slope, weight, fits, scale):
    """The gradients' lengths tell where `.grad` need not be looked at, and never hide an inf.

    slope: of both tasks, times the loss scale; each of them is finite.
    """
    parameter = nn.Parameter(torch.ones(1, dtype=dtype))
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    method = Heavy([("weight", parameter)], engine=scaler)
    method.weight = weight
    report = method.backward(
        {name: lambda: (parameter.double() * (slope / scale)).sum() for name in "ab"}
    )
    assert torch.isfinite(report.gram).all()
    assert bool(torch.isfinite(parameter.grad).all()) is fits
    assert report.finite is fits


@pytest.mark.parametrize("measure", [True, False])
def test_the_largest_gradient_of_a_lone_task_is_finite_and_the_sum_of_two_is_not(measure):
    weight = nn.Parameter(torch.ones(3))
    method = gradaccord.Sum([("weight", weight)], measure=measure)
    largest = torch.finfo(torch.float32).max
    losses = {name: lambda: (weight.double() * largest).sum() for name in "ab"}
    assert method.backward({"a": losses["a"]}).finite
    assert torch.equal(weight.grad, torch.full((3,), largest))
    assert not method.backward(losses).finite
    assert bool(torch.isinf(weight.grad).all())


def test_an_ordinary_gradient_is_not_looked_at_again(monkeypatch):
    model = trunk()
    method = gradaccord.PCGrad(model)
    looked = []
    monkeypatch.setattr(method.task_gradients, "all_finite", lambda g: looked.append(g) or True)
    assert method.backward(losses_of(model)).finite
    assert not looked
