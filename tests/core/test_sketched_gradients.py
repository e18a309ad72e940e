"""Sketches decide on the weights, and a second pass gives the exact gradient for them."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from memory_problems import GIVEN, MAKERS
from torch import nn
from toy import Vectors, assert_grads_close, autograd_of, grads, losses_of, trunk

import gradaccord


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", MAKERS)
def test_sketch_gives_the_exact_gradient_for_the_weights_it_reports(name, given, all_large):
    """The weights are nearly those of whole gradients; what is done with them is exact."""
    model = trunk()
    report = MAKERS[name](model, memory="sketch").backward(GIVEN[given](model))
    found = grads(model)
    whole = MAKERS[name](model)
    whole.weigh = lambda measured: reported_weights(report, whole, measured)
    whole.normalize = False
    exact = whole.backward(GIVEN[given](model))
    assert_grads_close(found, grads(model))
    assert not torch.equal(report.gram, exact.gram)


def reported_weights(report, method, measured):
    weights = report.weights * (len(report.tasks) if method.reduction == "mean" else 1)
    every = torch.ones(len(measured.groups), len(measured.tasks), dtype=torch.float64)
    if weights.ndim == 1:
        return weights.expand_as(every)
    for row, group in zip(weights, report.groups, strict=True):
        every[measured.groups.index(group)] = row
    return every


def test_small_gradients_are_kept_whole_and_losses_are_run_once():
    model = trunk()
    calls = []
    given = {t: lambda t=t, c=c: (calls.append(t), c())[1] for t, c in losses_of(model).items()}
    sketched = gradaccord.PCGrad(model, memory="sketch").backward(given)
    found = grads(model)
    full = gradaccord.PCGrad(model).backward(losses_of(model))
    assert calls == ["a", "b", "c"]
    assert torch.equal(sketched.gram, full.gram)
    assert_grads_close(found, grads(model), tolerance=0)


def test_one_task_needs_no_second_pass(all_large):
    model = trunk()
    calls = []
    call = losses_of(model)["b"]
    gradaccord.PCGrad(model, memory="sketch").backward({"b": lambda: (calls.append(1), call())[1]})
    found = grads(model)
    assert calls == [1]
    assert_grads_close(found, autograd_of(model, call()))


def test_nearly_the_weights_of_whole_gradients():
    """At 200,000 numbers, of which 12,500 are kept."""
    rows = torch.randn(4, 200_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows[1] -= 0.5 * rows[0]
    rows[3] += 0.7 * rows[2] - 0.3 * rows[1]
    model = Vectors(rows)
    for make in (gradaccord.PCGrad, partial(gradaccord.GradVac, beta=0.5), gradaccord.ConFIG):
        full = make(model).backward(model.losses())
        sketched = make(model, memory="sketch").backward(model.losses())
        torch.testing.assert_close(sketched.cosines, full.cosines, rtol=0, atol=0.03)
        torch.testing.assert_close(sketched.weights, full.weights, rtol=0.05, atol=0.05)
        expected = (sketched.weights[:, None] * rows).sum(0)
        torch.testing.assert_close(model.weight.grad, expected)


def test_dropout_is_replayed_and_the_random_state_moves_once(all_large):
    states = []
    for memory in ("full", "sketch"):
        model = trunk(dropout=0.4)
        torch.manual_seed(5)
        report = gradaccord.Sum(model, memory=memory).backward(losses_of(model))
        states.append((torch.get_rng_state(), grads(model), report.losses))
    assert torch.equal(states[0][0], states[1][0])
    assert torch.equal(states[0][2], states[1][2])
    assert_grads_close(states[1][1], states[0][1])


class Normed(nn.Module):
    """Running statistics that move, and a normalised weight whose buffer decides the loss."""

    def __init__(self):
        super().__init__()
        self.first = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 8))
        self.norm = nn.BatchNorm1d(8)
        self.heads = nn.ModuleDict({task: nn.Linear(8, 1) for task in "ab"})

    def losses(self):
        x = torch.randn(9, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        return {
            task: lambda head=head, i=i: head(self.norm(self.first(x + i))).square().mean()
            for i, (task, head) in enumerate(self.heads.items())
        }


def test_running_statistics_move_once_and_the_second_pass_sees_those_of_the_first(all_large):
    found = []
    for memory in ("full", "sketch"):
        torch.manual_seed(0)
        model = Normed().double()
        gradaccord.Sum(model, memory=memory).backward(model.losses())
        found.append((grads(model), dict(model.named_buffers())))
    (gradient, buffers), (sketched, moved) = found
    assert all(torch.equal(moved[name], buffer) for name, buffer in buffers.items())
    assert_grads_close(sketched, gradient)


def test_a_loss_that_draws_another_batch_when_called_again_is_refused(all_large):
    model = trunk()
    method = gradaccord.GradVac(model, memory="sketch")
    method.backward(losses_of(model))
    before, state = grads(model), copy.deepcopy(method.state_dict())
    drawn = iter(range(10))

    def fresh():
        return losses_of(model, seed=next(drawn))["b"]()

    with pytest.raises(ValueError, match="Task 'b' gave the loss .* called again"):
        method.backward(losses_of(model) | {"b": fresh})
    assert all(p.grad is before[name] for name, p in model.named_parameters())
    assert str(state) == str(method.state_dict())


def test_an_error_in_the_second_pass_leaves_everything_as_before(all_large):
    model = trunk(dropout=0.4)
    method = gradaccord.GradVac(model, memory="sketch")
    method.backward(losses_of(model))
    before, state = grads(model), copy.deepcopy(method.state_dict())
    calls = []

    def breaks():
        calls.append(1)
        return losses_of(model)["c"]() if len(calls) < 2 else 1 / 0

    with pytest.raises(ZeroDivisionError):
        method.backward(losses_of(model) | {"c": breaks})
    assert all(p.grad is before[name] for name, p in model.named_parameters())
    assert str(state) == str(method.state_dict())
    assert not any(p._post_accumulate_grad_hooks for p in model.parameters())


def test_the_sketches_generator_is_its_own_and_is_saved(all_large):
    model = trunk()
    first = gradaccord.PCGrad(model, memory="sketch", seed=4)
    whole = gradaccord.PCGrad(model, seed=4)
    first.backward(losses_of(model))
    whole.backward(losses_of(model))
    assert torch.equal(first.generator.get_state(), whole.generator.get_state())
    again = gradaccord.PCGrad(model, memory="sketch", seed=9)
    again.load_state_dict(first.state_dict())
    reports = [method.backward(losses_of(model)) for method in (first, again)]
    assert torch.equal(reports[0].gram, reports[1].gram)
    fresh = gradaccord.PCGrad(model, memory="sketch", seed=4)
    assert not torch.equal(fresh.backward(losses_of(model)).gram, reports[0].gram)


def test_zeros_that_a_compiled_model_gives_other_heads_leave_a_head_its_own_gradient(all_large):
    def zero_for_others(model):
        def nothing():
            return sum((p * 0).sum() for p in model.heads.parameters())

        return {t: lambda c=c: c() + nothing() for t, c in losses_of(model).items()}

    gradients = []
    for memory in ("full", "sketch"):
        model = trunk()
        method = gradaccord.PCGrad(model, memory=memory, shared=None)
        method.backward(zero_for_others(model))
        gradients.append({n: g for n, g in grads(model).items() if n.startswith("heads")})
    assert_grads_close(gradients[1], gradients[0])


def test_a_step_that_is_not_finite_passes_the_plain_sum_on(all_large):
    model = trunk()
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    method = gradaccord.GradVac(model, memory="sketch", engine=scaler)
    given = losses_of(model)
    report = method.backward(given | {"b": lambda: given["b"]() * float("inf")})
    assert not report.finite
    assert not all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    assert not method.tasks


def test_loss_scale_is_in_grad_and_not_in_the_report(all_large):
    model = trunk()
    plain = gradaccord.PCGrad(model, memory="sketch").backward(losses_of(model))
    unscaled = grads(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaled = gradaccord.PCGrad(model, memory="sketch", engine=scaler).backward(losses_of(model))
    torch.testing.assert_close(scaled.gram, plain.gram)
    assert_grads_close({n: g / 8 for n, g in grads(model).items()}, unscaled)
