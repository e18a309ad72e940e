"""Bad input gives one clear sentence that names task and value, and changes nothing."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from toy import losses_of, trunk

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


@pytest.mark.parametrize(
    ("weighting", "sentence"),
    [
        (
            lambda gram: torch.ones(2),
            r"returned \(2,\) for the tasks a, b, c: it must return 3 weights",
        ),
        (lambda gram: [1.0, 1.0, 1.0], r"returned \[1.0, 1.0, 1.0\].*must return 3 weights"),
        (lambda gram: torch.tensor([1.0, float("nan"), 1.0]), "gave task 'b' the weight nan"),
    ],
)
def test_third_party_weights_of_the_wrong_length(weighting, sentence):
    pytest.importorskip("torchjd", reason="TorchJD is not installed")
    model = trunk()
    method = gradaccord.TorchJD(model, weighting)
    state = method.state_dict()
    with pytest.raises(ValueError, match=sentence):
        method.backward(losses_of(model))
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(method.state_dict()["generator"], state["generator"])


@pytest.mark.parametrize(
    ("build", "error", "sentence"),
    [
        (
            lambda m: gradaccord.PCGrad(m, granularity="block"),
            ValueError,
            "`granularity` is 'block': use",
        ),
        (lambda m: gradaccord.PCGrad(m, granularity=lambda n: 3), TypeError, "gave the group 3 for"),
        (
            lambda m: gradaccord.PCGrad(m, granularity={"x": ["nowhere"]}),
            ValueError,
            "lists 'nowhere', but no parameter has",
        ),
        (lambda m: gradaccord.PCGrad(m, reduction="max"), ValueError, "`reduction` is 'max': use"),
        (
            lambda m: gradaccord.PCGrad(m, shared=["trunc"]),
            ValueError,
            "`shared` lists 'trunc', but no",
        ),
        (lambda m: gradaccord.GradVac(m, beta=1.5), ValueError, "`beta` is 1.5: it must lie between"),
        (lambda m: gradaccord.GradNorm(m, lr=-1), ValueError, "`lr` is -1: it must be a finite number"),
        (
            lambda m: gradaccord.GradNorm(m, layer="top"),
            ValueError,
            "`layer` is 'top', but no parameter",
        ),
        (lambda m: gradaccord.GradNorm(m, normalize=True), TypeError, "`normalize` makes equal"),
        (
            lambda m: gradaccord.Sum(m, normalize=True, measure=False),
            ValueError,
            "`normalize` is true and `measure` is false: lengths must be measured",
        ),
        (lambda m: gradaccord.GradNorm(m, granularity="layer"), TypeError, "takes no `granularity`"),
        (lambda m: gradaccord.PCGrad(m.parameters()), TypeError, "pass model.named_parameters()"),
        (lambda m: gradaccord.PCGrad(m, engine="cuda"), TypeError, "`engine` must be None.*got str"),
        (
            lambda m: gradaccord.TorchJD(m, 3),
            TypeError,
            "`weighting` is 3: give a name or an instance",
        ),
    ],
)
def test_bad_options_are_named(build, error, sentence):
    with pytest.raises(error, match=sentence):
        build(trunk())


def test_a_model_without_trainable_parameters():
    model = trunk().requires_grad_(False)
    with pytest.raises(ValueError, match="has 11 parameters and none of them is trainable"):
        gradaccord.PCGrad(model)
    with pytest.raises(ValueError, match="has 0 parameters"):
        gradaccord.Sum(nn.Identity())


def test_state_of_another_method_or_granularity():
    model = trunk()
    with pytest.raises(ValueError, match="saved by 'PCGrad', and this is 'GradVac'"):
        gradaccord.GradVac(model).load_state_dict(gradaccord.PCGrad(model).state_dict())
    layered = gradaccord.GradVac(model, granularity="layer").state_dict()
    with pytest.raises(ValueError, match="targets for 6 groups of parameters.*has 1"):
        gradaccord.GradVac(model).load_state_dict(layered)


def test_interrupted_step_changes_nothing():
    model = trunk()
    method = gradaccord.PCGrad(model)

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        method.backward(losses_of(model) | {"z": partial(interrupt)})
    assert all(p.grad is None for p in model.parameters())


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


def test_parameters_replaced_after_the_method_was_built():
    model = trunk()
    method = gradaccord.PCGrad(model)
    model.load_state_dict({k: v.clone() for k, v in model.state_dict().items()}, assign=True)
    with pytest.raises(ValueError, match="'words.weight' is not one of those.*build the method after"):
        method.backward(losses_of(model))
    model = trunk()
    method = gradaccord.PCGrad(model)
    model.layers[0] = nn.Linear(6, 8).double()
    with pytest.raises(ValueError, match="'layers.0.weight' is not one of those"):
        method.backward(losses_of(model))


@pytest.mark.parametrize(
    ("build", "error", "sentence"),
    [
        (lambda m: gradaccord.PCGrad(None), TypeError, "`model` must be a torch.nn.Module.*got None"),
        (
            lambda m: gradaccord.PCGrad(m, granularity=["layers"]),
            ValueError,
            "`granularity` is \\['layers'\\]",
        ),
        (lambda m: gradaccord.PCGrad(m, shared=[]), ValueError, "`shared` is empty"),
        (lambda m: gradaccord.GradVac(m, beta="0.1"), ValueError, "`beta` is '0.1'"),
    ],
)
def test_more_bad_options_are_named(build, error, sentence):
    with pytest.raises(error, match=sentence):
        build(trunk())


def test_gradnorm_on_a_layer_that_is_not_shared():
    model = trunk()
    with pytest.raises(ValueError, match="`layer` is 'heads.a', which the tasks a, b, c do not share"):
        gradaccord.GradNorm(model, layer="heads.a").backward(losses_of(model))


def plain_weights(gram):
    return torch.ones(len(gram))


def test_a_plain_function_as_weighting_resumes():
    pytest.importorskip("torchjd", reason="TorchJD is not installed")
    model = trunk()
    method = gradaccord.TorchJD(model, plain_weights)
    gradaccord.TorchJD(model, plain_weights).load_state_dict(method.state_dict())
