"""Averaged: the mean of the weights of a plain run, shown and saved in their place."""

from __future__ import annotations

import io
from functools import partial

import pytest
import torch
from torch import nn
from toy import losses_of, trunk

import gradaccord
from gradaccord.methods.registry import METHODS, controls_of

STEPS = 30


def run(model, method, steps, optimizer=None):
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=0.05)
    passed = []
    for step in steps:
        method.backward(losses_of(model, seed=step))
        optimizer.step()
        method.after_step()
        optimizer.zero_grad()
        passed.append([p.detach().clone() for p in model.parameters()])
    return passed


def plain_run():
    """The weights after every step of the plain loop that everyone writes."""
    model = trunk()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    passed = []
    for step in range(STEPS):
        optimizer.zero_grad()
        sum(loss() for loss in losses_of(model, seed=step).values()).backward()
        optimizer.step()
        passed.append([p.detach().clone() for p in model.parameters()])
    return passed


def mean_of(passed, shares):
    """The weighted mean of the weights passed, written out."""
    shares = torch.tensor(shares, dtype=torch.float64)
    stacked = [torch.stack(list(tensors)) for tensors in zip(*passed, strict=True)]
    return [torch.einsum("n,n...->...", shares / shares.sum(), tensors) for tensors in stacked]


CASES = {
    "EMA": ({"decay": 0.8}, [0.8 ** (STEPS - 1 - i) for i in range(STEPS)]),
    "EMA from a step on": (
        {"decay": 0.8, "start": 12},
        [0.0] * 12 + [0.8 ** (STEPS - 1 - i) for i in range(12, STEPS)],
    ),
    "SWA": ({"average": "swa"}, [1.0] * STEPS),
    "SWA from a step on": ({"average": "swa", "start": 20}, [0.0] * 20 + [1.0] * 10),
    "no memory": ({"decay": 0.0}, [0.0] * (STEPS - 1) + [1.0]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_mean_is_that_of_the_weights_of_a_plain_run(name):
    options, shares = CASES[name]
    expected = plain_run()
    model = trunk()
    method = gradaccord.Averaged(model, **options)
    passed = run(model, method, range(STEPS))
    for one, other in zip(passed[-1], expected[-1], strict=True):  # what is trained is as without it
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    mean = mean_of(expected, shares)
    with method.outer_weights(), method.outer_weights():
        for parameter, value in zip(model.parameters(), mean, strict=True):
            torch.testing.assert_close(parameter.detach(), value, rtol=1e-10, atol=1e-12)
    for parameter, value in zip(model.parameters(), passed[-1], strict=True):
        assert torch.equal(parameter, value)
    assert method.finish() is False
    for parameter, value in zip(model.parameters(), mean, strict=True):
        torch.testing.assert_close(parameter.detach(), value, rtol=1e-10, atol=1e-12)
    with method.outer_weights():  # finished: they are the model's own
        torch.testing.assert_close(next(model.parameters()).detach(), mean[0])


def test_before_the_start_the_weights_are_the_models_own():
    model = trunk()
    method = gradaccord.Averaged(model, start=5)
    passed = run(model, method, range(5))
    with method.outer_weights():
        for parameter, value in zip(model.parameters(), passed[-1], strict=True):
            assert torch.equal(parameter, value)


def test_it_equals_torchs_own_swa():
    """An independent implementation, of every weight after every step."""
    model = trunk()
    method = gradaccord.Averaged(model, average="swa")
    theirs = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):
        run(model, method, [step], optimizer)
        theirs.update_parameters(model)
    with method.outer_weights():
        for found, expected in zip(model.parameters(), theirs.module.parameters(), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)


def test_buffers_are_the_models_own():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double()
    method = gradaccord.Averaged(model, decay=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(8, 3, dtype=torch.float64)
    for _ in range(4):
        method.backward({"a": lambda: model(x).square().mean()})
        optimizer.step()
        method.after_step()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with method.outer_weights():
        for name, buffer in model.named_buffers():
            assert torch.equal(buffer, before[name])
    method.finish()
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, before[name])


def test_a_saved_state_continues_bit_equal():
    whole, part = trunk(), trunk()
    make = partial(gradaccord.Averaged, decay=0.7, start=2)
    one = make(whole)
    run(whole, one, range(9), torch.optim.SGD(whole.parameters(), lr=0.1))
    other = make(part)
    run(part, other, range(5), torch.optim.SGD(part.parameters(), lr=0.1))
    file = io.BytesIO()
    torch.save({"model": part.state_dict(), "method": other.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    again = trunk(seed=4)
    again.load_state_dict(saved["model"])
    resumed = make(again)
    resumed.load_state_dict(saved["method"])
    run(again, resumed, range(5, 9), torch.optim.SGD(again.parameters(), lr=0.1))
    with one.outer_weights(), resumed.outer_weights():
        for p, q in zip(whole.parameters(), again.parameters(), strict=True):
            assert torch.equal(p, q)
    with pytest.raises(ValueError, match=r"`phi` holds 'words.weight' of shape \(50, 6\), which is"):
        make(trunk(rows=60)).load_state_dict(saved["method"])


def test_a_frozen_parameter_stays_and_joins_again_as_it_is():
    model = trunk()
    method = gradaccord.Averaged(model, average="swa")
    run(model, method, range(3))
    model.words.requires_grad_(False)
    run(model, method, range(3, 5))
    kept = model.words.weight.detach().clone()
    with method.outer_weights():
        assert torch.equal(model.words.weight, kept)
    model.words.requires_grad_(True)
    run(model, method, range(5, 6))
    joined = model.words.weight.detach().clone()
    with method.outer_weights():
        assert torch.equal(model.words.weight, joined)


def test_any_method_may_fill_the_gradient():
    averaged, alone = trunk(), trunk()
    method = gradaccord.Averaged(averaged, gradient=gradaccord.PCGrad(averaged, seed=3))
    passed = run(averaged, method, range(4))
    expected = run(alone, gradaccord.PCGrad(alone, seed=3), range(4))
    for one, other in zip(passed[-1], expected[-1], strict=True):
        assert torch.equal(one, other)


def test_training_inside_the_block_is_refused():
    model = trunk()
    method = gradaccord.Averaged(model)
    run(model, method, range(2))
    with method.outer_weights():
        for call in (method.after_step, method.finish, method.state_dict):
            with pytest.raises(RuntimeError, match=r"was called inside .*outer_weights\(\)"):
                call()
        with pytest.raises(RuntimeError, match=r"backward\(\) was called inside"):
            method.backward(losses_of(model))


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"decay": 1.0}, ValueError, r"`decay` is 1.0: it must be in \[0, 1\)\."),
        ({"average": "swa", "decay": 0.9}, ValueError, "`decay` is 0.9 and `average` is 'swa'"),
        ({"average": "mean"}, ValueError, "`average` is 'mean': use 'ema' or 'swa'"),
        ({"start": -1}, ValueError, "`start` is -1: it must be a whole number >= 0"),
    ],
)
def test_options_that_make_no_sense(options, error, sentence):
    with pytest.raises(error, match=sentence):
        gradaccord.Averaged(trunk(), **options)


def test_weights_in_half_precision_are_warned_of():
    with pytest.warns(UserWarning, match="in which a mean over many steps rounds away"):
        gradaccord.Averaged(trunk(dtype=torch.bfloat16))


def test_its_controls_are_plain_training():
    assert [c.method for c in controls_of("averaged", {"decay": 0.9})] == ["sum"]
    assert [c.method for c in controls_of("sequential_averaged", {})] == ["sequential"]
    assert METHODS["averaged"].copies_with(3, {}) == 3
