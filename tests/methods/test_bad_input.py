"""Bad input gives one clear sentence that names task and value, and changes nothing."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from toy import losses_of, trunk

import gradaccord


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
