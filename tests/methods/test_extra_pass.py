"""One more pass over a batch: the same dropout, and buffers and random numbers as they were."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from gradaccord.core.replay import RandomState
from gradaccord.methods.regularize.extra_pass import check_forward, extra_pass


def made() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)).double()


def test_it_sees_the_same_dropout_and_leaves_no_trace():
    model, x = made(), torch.randn(5, 3, dtype=torch.float64)
    random = RandomState.capture([x])
    first = model(x)
    torch.rand(2)
    state, buffers = torch.get_rng_state(), copy.deepcopy(dict(model.named_buffers()))
    with extra_pass(model, random):
        again = model(x)
    assert torch.equal(again, first)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, buffers[name]) for name, value in model.named_buffers())
    assert not torch.equal(model(x), first)


def fails(outputs: torch.Tensor) -> None:
    raise ZeroDivisionError


def test_an_error_leaves_no_trace_either():
    model, x = made(), torch.ones(5, 3, dtype=torch.float64)
    random = RandomState.capture([x])
    torch.rand(2)
    state, count = torch.get_rng_state(), int(model[1].num_batches_tracked)
    with pytest.raises(ZeroDivisionError), extra_pass(model, random):
        fails(model(x))
    assert torch.equal(torch.get_rng_state(), state)
    assert int(model[1].num_batches_tracked) == count


def test_a_batch_in_place_of_what_computes_it_is_refused():
    check_forward(lambda: None)
    with pytest.raises(TypeError, match="`forward` must be a callable without arguments, got Tensor"):
        check_forward(torch.ones(2))
