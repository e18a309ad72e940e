"""`memory`: what is kept of the tasks' gradients, and that nothing else depends on it."""

from __future__ import annotations

import copy

import pytest
import torch
from toy import assert_grads_close, grads, losses_of, trunk

import gradaccord
from gradaccord.methods.registry import METHODS


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rows", [4000, 50])
def test_embeddings(sparse, rows, all_large):
    """By rows while they are few, and sketched when they are many; sparse gradients stay sparse."""
    gradients = []
    for memory in ("full", "half", "cpu", "sketch"):
        model = trunk(rows=rows, sparse=sparse)
        gradaccord.Sum(model, memory=memory).backward(losses_of(model, rows=rows))
        assert model.words.weight.grad.is_sparse == sparse
        gradients.append(grads(model))
    for found, tolerance in zip(gradients[1:], (0.01, 1e-12, 1e-12), strict=True):
        assert_grads_close(found, gradients[0], tolerance)


@pytest.mark.parametrize("memory", ["half", "cpu", "sketch"])
def test_copies_continue_on_their_own(memory, all_large):
    model = trunk()
    method = gradaccord.GradVac(model, memory=memory)
    method.backward(losses_of(model))
    other, twin = copy.deepcopy((model, method))
    first, second = method.backward(losses_of(model)), twin.backward(losses_of(other))
    assert torch.equal(first.weights, second.weights)
    assert_grads_close(grads(other), grads(model))


def test_unknown_values_are_refused():
    with pytest.raises(ValueError, match="`memory` is 'disk': use 'full', 'half', 'cpu' or 'sketch'"):
        gradaccord.PCGrad(trunk(), memory="disk")
    with pytest.raises(ValueError, match="`decide` is 'losses': use 'gradients' or 'features'"):
        gradaccord.PCGrad(trunk(), decide="losses")
    with pytest.raises(ValueError, match="leave one of them out"):
        gradaccord.PCGrad(trunk(), decide="features", memory="half")
    with pytest.raises(ValueError, match="`measure` is false"):
        gradaccord.Sum(trunk(), measure=False, memory="sketch")


def test_the_registry_knows_what_memory_costs():
    entry = METHODS["pcgrad"]
    assert entry.check({"memory": "sketch"}) == {"memory": "sketch"}
    assert entry.cost_with({"memory": "sketch"}) == 2.0
    assert entry.cost_with({"memory": "half"}) == 1.0
    assert entry.copies_with(8, {}) == 7
    assert entry.copies_with(8, {"memory": "half"}) == 4
    assert entry.copies_with(8, {"memory": "cpu"}) == 0
    assert entry.copies_with(8, {"memory": "sketch"}) == 0.5
    assert "memory" not in METHODS["sequential"].options()
