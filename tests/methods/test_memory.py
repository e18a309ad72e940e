"""`memory`: what is kept of the tasks' gradients, and that nothing else depends on it."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from toy import Vectors, assert_grads_close, autograd_of, batch, grads, losses_of, trunk

import gradaccord
from gradaccord.core import sketched_gradients, smaller_bank
from gradaccord.methods.registry import METHODS

MAKERS = {
    "Sum": gradaccord.Sum,
    "Mean": gradaccord.Mean,
    "PCGrad": gradaccord.PCGrad,
    "GradVac": partial(gradaccord.GradVac, beta=0.3),
    "GradVac by layer": partial(gradaccord.GradVac, beta=0.3, granularity="layer"),
    "PCGrad by tensor": partial(gradaccord.PCGrad, granularity="tensor"),
    "PCGrad, normalised": partial(gradaccord.PCGrad, normalize=True),
    "PCGrad, shared by name": partial(gradaccord.PCGrad, shared=["layers.0"]),
    "ConFIG": gradaccord.ConFIG,
    "GradNorm": partial(gradaccord.GradNorm, lr=0.3),
}


@pytest.fixture
def all_large(monkeypatch):
    """The toys' parameters are small: sketch them all the same."""
    monkeypatch.setattr(sketched_gradients, "SMALL", 4)


def shared_batch(model, shift=1):
    tokens, labels = batch(5)

    def call():
        hidden = model.features(tokens)
        return {
            task: F.cross_entropy(head(hidden), (labels + shift * i) % 3)
            for i, (task, head) in enumerate(model.heads.items())
        }

    return call


def micro_batches(model):
    return {
        task: [lambda call=call, n=n: (call(), n) for call, n in zip(calls, (2, 5), strict=True)]
        for task, calls in zip(
            "abc",
            zip(losses_of(model).values(), losses_of(model, seed=1).values(), strict=True),
            strict=True,
        )
    }


GIVEN = {
    "own batches": losses_of,
    "micro-batches": micro_batches,
    "one shared batch": shared_batch,
    "shared micro-batches": lambda model: [shared_batch(model), shared_batch(model, 2)],
}


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
    monkeypatch.setattr(smaller_bank, "PIECE", 5)
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
