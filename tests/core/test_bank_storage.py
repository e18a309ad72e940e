"""Gradients in half precision are off by their rounding, those in the host's memory by nothing."""

from __future__ import annotations

import pytest
import torch
from memory_problems import GIVEN, MAKERS
from toy import assert_grads_close, grads, losses_of, trunk

import gradaccord
from gradaccord.core import bank_storage


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", MAKERS)
def test_host_memory_changes_nothing(name, given):
    runs = []
    for memory in ("full", "cpu"):
        model = trunk()
        method = MAKERS[name](model, memory=memory)
        reports = [method.backward(GIVEN[given](model)) for _ in range(3)]
        runs.append((reports[-1], grads(model), method.state_dict()))
    (full, gradient, state), (host, on_host, host_state) = runs
    torch.testing.assert_close(host.weights, full.weights, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(host.gram, full.gram, rtol=1e-12, atol=1e-12)
    assert_grads_close(on_host, gradient)
    assert str(state) == str(host_state)


def test_gradients_come_back_from_the_host_in_pieces(monkeypatch):
    monkeypatch.setattr(bank_storage, "PIECE", 5)
    model = trunk()
    full = gradaccord.PCGrad(model).backward(losses_of(model))
    host = gradaccord.PCGrad(model, memory="cpu").backward(losses_of(model))
    torch.testing.assert_close(host.gram, full.gram, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", MAKERS)
def test_half_precision_is_off_by_its_rounding(name, given):
    model = trunk()
    full = MAKERS[name](model).backward(GIVEN[given](model))
    gradient = grads(model)
    half = MAKERS[name](model, memory="half").backward(GIVEN[given](model))
    torch.testing.assert_close(half.cosines, full.cosines, rtol=0.01, atol=0.01)
    torch.testing.assert_close(half.weights, full.weights, rtol=0.03, atol=0.03)
    for parameter, reference in zip(model.parameters(), gradient.values(), strict=True):
        assert parameter.grad.dtype == parameter.dtype
        torch.testing.assert_close(
            parameter.grad, reference, rtol=0.05, atol=0.05 * float(reference.abs().max())
        )
    assert not torch.equal(half.gram, full.gram)
