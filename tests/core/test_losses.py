"""What `backward` is given: the forms it reads, and one sentence for each that it cannot."""

from __future__ import annotations

import pytest
import torch
from toy import (
    losses_of,
    trunk,
)

import gradaccord


def not_a_callable(losses):
    return losses | {"b": 3.5}


def micro_batch_not_a_callable(losses):
    return losses | {"b": [losses["b"], None]}


def no_micro_batches(losses):
    return losses | {"b": []}


def not_a_scalar(losses):
    return losses | {"b": lambda: torch.ones(4, requires_grad=True) * losses["b"]()}


def not_a_tensor(losses):
    return losses | {"b": lambda: 0.25}


def without_grad(losses):
    return losses | {"b": lambda: losses["b"]().detach()}


def nan(losses):
    return losses | {"b": lambda: losses["b"]() * float("nan")}


def infinite(losses):
    return losses | {"b": lambda: losses["b"]() * float("inf")}


def empty(losses):
    return {}


def twice(losses):
    return [*losses.items(), ("b", losses["b"])]


def name_not_a_string(losses):
    return losses | {7: losses["b"]}


def no_items(losses):
    return losses | {"b": lambda: (losses["b"](), 0)}


def items_now_and_then(losses):
    return losses | {"b": [lambda: (losses["b"](), 3), losses["b"]]}


def raises_halfway(losses):
    def broken():
        raise OSError("disk full")

    return losses | {"c": broken}


def shared_batch_without_tasks(losses):
    return lambda: {}


def shared_batch_not_a_mapping(losses):
    return lambda: losses["b"]()


def shared_micro_batches_differ(losses):
    return [lambda: {"a": losses["a"]()}, lambda: {"b": losses["b"]()}]


def nothing_of_the_kind(losses):
    return 5


@pytest.mark.parametrize(
    ("spoil", "error", "sentence"),
    [
        (not_a_callable, TypeError, "Task 'b' must be a callable that returns a loss.*got 3.5"),
        (
            micro_batch_not_a_callable,
            TypeError,
            "Task 'b' has a micro-batch that is not callable: None",
        ),
        (no_micro_batches, ValueError, "Task 'b' has an empty list of micro-batches"),
        (not_a_scalar, ValueError, r"Task 'b' returned a loss of shape \(4,\): reduce it to a scalar"),
        (not_a_tensor, TypeError, "Task 'b' returned 0.25: the loss must be a scalar tensor"),
        (without_grad, ValueError, r"Task 'b' returned the loss 1\.\d+ without a gradient"),
        (nan, ValueError, "Task 'b' has the loss nan"),
        (infinite, ValueError, "Task 'b' has the loss inf"),
        (empty, ValueError, "`losses` is empty: give at least one task"),
        (twice, ValueError, "Task 'b' is given twice"),
        (name_not_a_string, TypeError, "task name must be a string, got 7"),
        (no_items, ValueError, r"Task 'b' returned 0.0 items: the count must be positive"),
        (items_now_and_then, ValueError, "Task 'b' returned the number of items for some"),
        (raises_halfway, OSError, "disk full"),
        (shared_batch_without_tasks, ValueError, "returned no loss: give at least one task"),
        (shared_batch_not_a_mapping, TypeError, "must return a mapping from task name to loss"),
        (shared_micro_batches_differ, ValueError, r"returned the tasks \['b'\] after one"),
        (nothing_of_the_kind, TypeError, "`losses` must map task names to callables.*got int"),
    ],
)
@pytest.mark.parametrize(
    "make",
    [gradaccord.Sum, gradaccord.PCGrad, gradaccord.GradVac, gradaccord.GradNorm, gradaccord.FAMO],
    ids=["Sum", "PCGrad", "GradVac", "GradNorm", "FAMO"],
)
def test_bad_losses_are_named_and_change_nothing(make, spoil, error, sentence):
    model = trunk()
    method = make(model)
    method.backward(losses_of(model))
    grads = {name: p.grad for name, p in model.named_parameters()}
    values = {name: g.clone() for name, g in grads.items()}
    state = method.state_dict()
    with pytest.raises(error, match=sentence):
        method.backward(spoil(losses_of(model, seed=1)))
    for name, p in model.named_parameters():
        assert p.grad is grads[name]
        assert torch.equal(p.grad, values[name])
    assert str(method.state_dict()) == str(state)
    method.backward(losses_of(model, seed=1))  # and the method still works


class Output:
    def __init__(self, loss):
        self.loss = loss


def model_output(losses):
    return losses | {"b": lambda: Output(losses["b"]())}


def loss_and_logits(losses):
    return losses | {"b": lambda: (losses["b"](), torch.ones(3))}


def loss_and_nothing(losses):
    return losses | {"b": lambda: (losses["b"](), None)}


def runs_backward_itself(losses):
    def own():
        loss = losses["b"]()
        loss.backward(retain_graph=True)
        return loss

    return losses | {"b": own}


@pytest.mark.parametrize(
    ("spoil", "error", "sentence"),
    [
        (model_output, TypeError, "Task 'b' returned a Output: return its `.loss`"),
        (loss_and_logits, TypeError, "Task 'b' returned a pair whose second part is a Tensor"),
        (loss_and_nothing, TypeError, "Task 'b' returned a pair whose second part is a NoneType"),
        (runs_backward_itself, ValueError, "Task 'b' has changed `.grad` by itself"),
    ],
)
def test_what_a_hugging_face_user_may_return(spoil, error, sentence):
    model = trunk()
    with pytest.raises(error, match=sentence):
        gradaccord.PCGrad(model).backward(spoil(losses_of(model)))
    assert all(p.grad is None for p in model.parameters())


def test_10_surgery_on_grad_after_one_summed_backward():
    """Our API takes callables: a tensor that was summed already is refused, naming the task."""
    model = trunk()
    losses = losses_of(model)
    with pytest.raises(TypeError, match="Task 'a' is given as a tensor: pass a callable"):
        gradaccord.PCGrad(model).backward({"a": losses["a"](), "b": losses["b"]()})
