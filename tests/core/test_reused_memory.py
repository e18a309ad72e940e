"""What is kept of a small model's gradients between steps: memory, and never a number."""

import copy
import pickle

import pytest
import torch
from torch import nn

import gradaccord
from gradaccord.core import reused_memory
from gradaccord.core.reused_memory import SpareMemory


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Linear(5, 3).double()


def losses_of(model, seen=lambda task: None):
    def loss(task, power):
        seen(task)
        return model(torch.ones(2, 5, dtype=torch.float64)).pow(power).sum()

    return {task: lambda task=task, k=k: loss(task, k) for k, task in enumerate("abc", 1)}


def kept(method):
    return set(method.task_gradients._spare._kept)


def test_a_task_s_gradients_stay_until_its_next_ones_are_computed(model):
    method = gradaccord.PCGrad(model)
    method.backward(losses_of(model))
    assert kept(method) == {"b", "c"}  # the memory of the first has become `.grad`
    during = {}
    model.zero_grad()
    method.backward(losses_of(model, lambda task: during.update({task: kept(method)})))
    assert during == {"a": {"b", "c"}, "b": {"c"}, "c": set()}


def test_no_step_depends_on_what_was_kept(model, monkeypatch):
    def trained(limit):
        monkeypatch.setattr(reused_memory, "LARGEST", limit)
        own = copy.deepcopy(model)
        method, optimizer = gradaccord.PCGrad(own), torch.optim.SGD(own.parameters(), 0.01)
        for _ in range(4):
            method.backward(losses_of(own))
            optimizer.step()
        assert bool(kept(method)) == (limit > 0)
        return own.weight

    assert torch.equal(trained(0), trained(1 << 20))


def test_a_large_model_keeps_nothing(model, monkeypatch):
    one = sum(p.nbytes for p in model.parameters())
    for limit, expected in ((3 * one, {"b", "c"}), (3 * one - 1, set())):
        monkeypatch.setattr(reused_memory, "LARGEST", limit)
        method = gradaccord.Sum(model)
        method.backward(losses_of(model))
        assert kept(method) == expected


def test_copies_carry_nothing(model):
    method = gradaccord.Sum(model)
    method.backward(losses_of(model))
    assert kept(method)
    assert not kept(copy.deepcopy(method))
    assert not pickle.loads(pickle.dumps(method.task_gradients._spare))._kept


def test_an_accelerator_has_an_allocator_of_its_own():
    spare = SpareMemory([torch.empty(3, device="meta")])
    assert spare._tasks == 0
