"""What all weightings of losses share: passes, state, heads, accumulation, scalers, mistakes."""

from __future__ import annotations

import io
from functools import partial

import pytest
import torch
from toy import assert_grads_close, autograd_of, batch, grads, loss_of, losses_of, trunk
from weigh_problems import shared_losses, step_losses

import gradaccord
from gradaccord.core.engine import Engine
from gradaccord.methods.registry import METHODS

IMTLL = partial(gradaccord.TorchJDLoss, scalarizer="IMTLL", lr=0.3)
WEIGHTINGS = {
    "uncertainty": partial(gradaccord.UncertaintyWeighting, lr=0.3),
    "dwa": partial(gradaccord.DWA, window=2, temperature=0.2),
    "rlw": gradaccord.RLW,
    "famo": partial(gradaccord.FAMO, lr=0.2),
    "loss_scale": partial(gradaccord.LossScale, decay=0.5),
    "smooth_tchebycheff": partial(gradaccord.SmoothTchebycheff, mu=0.3),
    "torchjd_loss": IMTLL,
}
for new, entry in METHODS.items():  # a new method, at its defaults
    if entry.loss_only:
        WEIGHTINGS.setdefault(new, entry.load())


class Counting(Engine):
    """Counts backward passes."""

    def __init__(self, model):
        super().__init__(model)
        self.passes = 0

    def backward(self, loss, retain_graph=False):
        self.passes += 1
        super().backward(loss, retain_graph)


def step(method, model, number, shared=False):
    return method.backward(step_losses(model, number, shared))


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_no_more_passes_than_plain_training(name):
    """Own batches: one forward and backward each. One batch under all heads: one of each in all."""
    passes = {}
    for method in (gradaccord.Sum, WEIGHTINGS[name]):
        for shared in (False, True):
            model = trunk()
            forward = []
            model.words.register_forward_hook(lambda *_, seen=forward: seen.append(1))
            engine = Counting(model)
            step(method(model, engine=engine), model, 0, shared)
            passes[method, shared] = (len(forward), engine.passes)
    assert passes[gradaccord.Sum, False] == passes[WEIGHTINGS[name], False] == (3, 3)
    assert passes[WEIGHTINGS[name], True] == (1, 1)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", WEIGHTINGS)
def test_the_gradient_is_the_reported_weights_times_the_tasks_gradients(name, shared):
    model = trunk()
    method = WEIGHTINGS[name](model)
    for number in range(5):
        report = step(method, model, number, shared)
    losses = step_losses(model, 4, shared)
    values = losses() if shared else {task: call() for task, call in losses.items()}
    assert report.tasks == ("a", "b", "c")
    torch.testing.assert_close(report.losses, torch.stack(list(values.values())).detach())
    assert float(report.weights.std()) > 1e-3
    total = sum(weight * values[task] for task, weight in zip("abc", report.weights, strict=True))
    assert_grads_close(grads(model), autograd_of(model, total))
    assert torch.isnan(report.gram).all()
    assert report.to_floats()["weight/a"] == float(report.weights[0])


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_mean_divides_by_the_number_of_tasks(name):
    gradients = []
    for reduction in ("sum", "mean"):
        model = trunk()
        step(WEIGHTINGS[name](model, reduction=reduction), model, 0)
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    torch.testing.assert_close(gradients[0], 3 * gradients[1])


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_the_state_continues_bit_equal_and_by_name(name):
    model = trunk()
    method, fresh = WEIGHTINGS[name](model), WEIGHTINGS[name](model, seed=9)
    for number in range(5):
        step(method, model, number)
    file = io.BytesIO()
    torch.save(method.state_dict(), file)
    file.seek(0)
    fresh.load_state_dict(torch.load(file, weights_only=True))
    for number in range(5, 8):
        losses = step_losses(model, number, False)
        report = method.backward(losses)
        again = fresh.backward({task: losses[task] for task in ("c", "a", "b")})  # in another order
        assert torch.equal(report.weights, again.weights[[1, 2, 0]])
    if name != "smooth_tchebycheff":  # which has no state
        start = WEIGHTINGS[name](model).backward(step_losses(model, 7, False))
        assert not torch.equal(start.weights, report.weights)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", WEIGHTINGS)
def test_micro_batches_count_by_their_items(name, shared):
    whole, parts = trunk(), trunk()
    methods = WEIGHTINGS[name](whole), WEIGHTINGS[name](parts)
    for number in range(4):
        data = {task: batch(10 * number + (0 if shared else i)) for i, task in enumerate("abc")}

        def loss(model, task, piece, data=data):
            tokens, labels = (x[piece] for x in data[task])
            return loss_of(model, task, tokens, labels), len(labels)

        def all_heads(model, piece, loss=loss):
            return {task: loss(model, task, piece) for task in "abc"}

        pieces = (slice(0, 5), slice(5, 7))
        if shared:
            given = (
                partial(all_heads, whole, slice(None)),
                [partial(all_heads, parts, p) for p in pieces],
            )
        else:
            given = (
                {t: partial(loss, whole, t, slice(None)) for t in "abc"},
                {t: [partial(loss, parts, t, p) for p in pieces] for t in "abc"},
            )
        reports = [method.backward(losses) for method, losses in zip(methods, given, strict=True)]
        torch.testing.assert_close(reports[0].weights, reports[1].weights, rtol=1e-10, atol=0)
        assert_grads_close(grads(parts), grads(whole))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", WEIGHTINGS)
def test_a_scaler_changes_nothing_and_a_skipped_step_leaves_the_state(name, shared):
    plain, scaled = trunk(), trunk()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    methods = WEIGHTINGS[name](plain), WEIGHTINGS[name](scaled, engine=scaler)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (plain, scaled)]
    for number in range(6):
        report = step(methods[1], scaled, number, shared)
        assert report.finite
        scaler.step(optimizers[1])
        scaler.update()
        optimizers[1].zero_grad()
        step(methods[0], plain, number, shared)
        optimizers[0].step()
        if number == 2:
            state = methods[1].state_dict()
            bad = step_losses(scaled, 99, shared)

            def overflow(bad=bad):
                return {t: loss * float("inf") for t, loss in bad().items()}

            given = overflow if shared else bad | {"b": lambda bad=bad: bad["b"]() * float("inf")}
            assert not methods[1].backward(given).finite
            scaler.step(optimizers[1])  # skipped
            scaler.update()
            optimizers[1].zero_grad()
            after = methods[1].state_dict()
            assert str(after) == str(state)
    for one, other in zip(scaled.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_half_precision_losses_keep_the_weights_exact(name):
    """The sum of weighted losses is made in float32, also where the losses are bfloat16."""
    model = trunk(dtype=torch.float32)
    losses = {task: loss.to(torch.bfloat16) for task, loss in shared_losses(model, 0)().items()}
    method = WEIGHTINGS[name](model)
    seen = []
    method.engine.backward = lambda loss, retain_graph=False: (seen.append(loss), loss.backward())
    report = method.backward(lambda: losses)
    (total,) = seen
    assert total.dtype == torch.float32
    expected = float((report.weights * report.losses).sum())
    assert float(total.detach()) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("shared", [False, True])
def test_a_loss_that_is_not_finite_is_refused_without_a_scaler(shared):
    model = trunk()
    method = gradaccord.FAMO(model)
    step(method, model, 0, shared)
    state, before = method.state_dict(), [p.grad.clone() for p in model.parameters()]
    losses = step_losses(model, 1, shared)
    if shared:
        given = lambda: losses() | {"b": losses()["b"] * float("nan")}  # noqa: E731
    else:
        given = losses | {"b": lambda: losses["b"]() * float("nan")}
    with pytest.raises(ValueError, match="Task 'b' has the loss nan"):
        method.backward(given)
    assert method.state_dict()["before"] == state["before"]
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter.grad, old)


def test_options_that_compare_gradients_do_not_exist():
    with pytest.raises(TypeError, match="granularity"):
        gradaccord.RLW(trunk(), granularity="layer")
    with pytest.raises(ValueError, match="The method 'rlw' has no option 'shared'"):
        METHODS["rlw"].check({"shared": ["words"]})
    with pytest.raises(ValueError, match="`reduction` is 'max'"):
        gradaccord.RLW(trunk(), reduction="max")


def test_they_are_gradients_of_a_trajectory_too():
    model = trunk()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inner = gradaccord.LossScale(model)
    method = gradaccord.SequentialReptile(model, optimizer, inner_steps=2, gradient=inner)
    for number in range(2):
        report = method.backward(losses_of(model, seed=number))
        torch.testing.assert_close(
            report.weights * report.losses, torch.ones(3).double(), rtol=0.2, atol=0
        )
        optimizer.step()
        method.after_step()
    assert inner.sums.keys() == {"a", "b", "c"}
