"""What is not finite in `.grad` is always reported."""

from __future__ import annotations

import pytest
import torch
from copies_problems import TRAJECTORIES, given, length_at_zero, made
from torch import nn
from toy import losses_of, trunk

import gradaccord


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
