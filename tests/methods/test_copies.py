"""Copies and pickles of model and method go on as the original."""

from __future__ import annotations

import copy
import pickle
from functools import partial

import pytest
import torch
from copies_problems import METHODS, given, made
from toy import batch, loss_of, trunk

import gradaccord


def train(name, model, method, optimizer, steps):
    for step in steps:
        method.backward(given(name, model, step))
        optimizer.step()
        method.after_step()


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda triple: pickle.loads(pickle.dumps(triple)),
}


@pytest.mark.filterwarnings("ignore:.*not DPP:UserWarning")
@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", METHODS)
def test_a_copy_of_model_and_method_goes_on_as_the_original_and_alone(name, way):
    model = trunk(dropout=0.0)
    method, optimizer = made(name, model)
    train(name, model, method, optimizer, range(2))  # within a trajectory
    other, twin, optimizer_of_twin = COPIES[way]((model, method, optimizer))
    start = [p.detach().clone() for p in other.parameters()]
    train(name, model, method, optimizer, range(2, 7))
    assert all(torch.equal(p, q) for p, q in zip(other.parameters(), start, strict=True))
    train(name, other, twin, optimizer_of_twin, range(2, 7))
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q)
    assert not torch.equal(start[0], next(other.parameters()))


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", ["PairedSum", "DotProd", "SAM on pairs"])
def test_a_copy_between_the_halves_of_a_pair(name, way):
    model = trunk()
    method, optimizer = made(name, model)
    method.backward({"a": partial(loss_of, model, "a", *batch(1))})
    other, twin, _ = COPIES[way]((model, method, optimizer))
    for own, half in ((model, method), (other, twin)):
        half.backward({"b": partial(loss_of, own, "b", *batch(2))})
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None)
        assert p.grad is None or torch.equal(p.grad, q.grad)


def test_a_copied_pair_that_must_run_its_first_batch_again_says_so():
    """Its callable is about the original model."""
    model = trunk()
    method = gradaccord.DotProd(model, scheme="symmetric")
    method.backward({"a": lambda: loss_of(model, "a", *batch(1))})
    other, twin = copy.deepcopy((model, method))
    with pytest.raises(
        ValueError, match="'a' comes from a checkpoint or a copy and cannot be run again"
    ):
        twin.backward({"b": lambda: loss_of(other, "b", *batch(2))})
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("name", ["PCGrad", "DotProd", "Reptile"])
def test_a_copy_of_the_method_alone_has_weights_of_its_own_and_says_so(name):
    model = trunk()
    method, _ = made(name, model)
    twin = copy.deepcopy(method)
    with pytest.raises(ValueError, match="Task 'a' has a loss that reaches none of the method's"):
        twin.backward(given(name, model, 0))
