"""The report of a step."""

from __future__ import annotations

import math

import pytest
import torch
from toy import Vectors

import gradaccord


def test_report_of_known_gradients():
    rows = torch.tensor([[3.0, 4.0], [-4.0, 3.0], [-3.0, -4.0]], dtype=torch.float64)
    model = Vectors(rows)
    report = gradaccord.Sum(model).backward(model.losses(["x", "y", "z"]))
    torch.testing.assert_close(report.norms, torch.full((3,), 5.0, dtype=torch.float64))
    torch.testing.assert_close(report.gram, rows @ rows.T)
    assert report.pairs == pytest.approx({("x", "y"): 0.0, ("x", "z"): -1.0, ("y", "z"): 0.0})
    assert report.conflicts == pytest.approx(1 / 3)
    assert report.mean_cosine == pytest.approx(-1 / 3)
    floats = report.to_floats()
    assert all(type(value) is float for value in floats.values())
    assert floats["loss/x"] == 1.0
    assert floats["grad_norm/z"] == 5.0
    assert floats["cosine/x~z"] == -1.0
    assert floats["weight/y"] == 1.0
    assert 0 < floats["seconds"] < 10


def test_report_of_one_task_has_no_pairs():
    model = Vectors(torch.ones(1, 2))
    report = gradaccord.Sum(model).backward(model.losses())
    assert math.isnan(report.mean_cosine)
    assert report.conflicts == 0
