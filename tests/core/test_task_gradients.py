"""One gradient per task: tied weights, varying tasks, losses that reach nothing."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from copies_problems import METHODS, given, made
from torch import nn
from toy import (
    assert_grads_close,
    autograd_of,
    batch,
    grads,
    loss_of,
    losses_of,
    trunk,
)

import gradaccord


def test_11_graph_kept_where_every_task_has_its_own_batch():
    model = trunk()
    kept: dict[str, torch.Tensor] = {}

    def keeping(task, loss):
        kept[task] = loss()
        return kept[task]

    losses = {t: partial(keeping, t, f) for t, f in losses_of(model).items()}
    gradaccord.PCGrad(model).backward(losses)
    for loss in kept.values():
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()


class Tied(nn.Module):
    """A language model whose decoder is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(2500, 6)
        self.layer = nn.Linear(6, 6)
        self.decoder = nn.Linear(6, 2500, bias=False)
        self.decoder.weight = self.words.weight

    def forward(self, tokens: torch.Tensor, task: str) -> torch.Tensor:
        return self.decoder(torch.tanh(self.layer(self.words(tokens).mean(1))))


def test_13_tied_weights():
    torch.manual_seed(0)
    model = Tied().double()
    losses = losses_of(model, tasks=("a", "b"), rows=2500)
    report = gradaccord.Sum(model).backward(losses)
    expected = autograd_of(model, sum(loss() for loss in losses.values()))
    assert_grads_close(grads(model), expected)
    assert len(report.norms) == 2
    gradaccord.PCGrad(model).backward(losses)


@pytest.mark.parametrize(
    "make", [gradaccord.Sum, gradaccord.PCGrad, gradaccord.GradVac, gradaccord.GradNorm]
)
def test_13_varying_number_of_tasks(make):
    model = trunk()
    method = make(model)
    for tasks in (("a", "b"), ("c",), ("a", "b", "c"), ("c", "b"), ("a",)):
        report = method.backward(losses_of(model, tasks=tasks))
        assert report.tasks == tasks


def test_14_stale_grad_leaking_into_the_first_task():
    clean, stale = trunk(), trunk()
    for p in stale.parameters():
        p.grad = torch.full_like(p, 7.0)
    reports = [gradaccord.PCGrad(m).backward(losses_of(m)) for m in (clean, stale)]
    assert torch.equal(reports[0].gram, reports[1].gram)
    for name, p in clean.named_parameters():
        assert torch.equal(p.grad, stale.get_parameter(name).grad)


@pytest.mark.parametrize("name", METHODS)
def test_a_loss_of_another_model_is_not_silence(name):
    """It left `.grad` None, and optimizer.step() did nothing for ever."""
    model, other = trunk(), trunk()
    method, _ = made(name, model)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.5)
    with pytest.raises(
        ValueError, match="Task 'a' has a loss that reaches none of .* build the method"
    ):
        method.backward(given(name, other, 0))
    assert all(bool((p.grad == 0.5).all()) for p in model.parameters())


def test_one_task_of_a_shared_batch_that_reaches_nothing_is_named():
    model = trunk()
    for parameter in [
        *model.words.parameters(),
        *model.layers.parameters(),
        *model.heads["b"].parameters(),
    ]:
        parameter.requires_grad_(False)
    stray = nn.Parameter(torch.ones(()))

    def losses():
        values = {task: loss_of(model, task, *batch(1)) for task in "ab"}
        return {"a": values["a"], "b": values["b"] + stray}

    with pytest.raises(ValueError, match="Task 'b' has a loss that reaches none"):
        gradaccord.PCGrad(model).backward(losses)
    assert all(p.grad is None for p in model.parameters())


def test_a_model_on_the_meta_device_is_refused_in_one_sentence():
    with torch.device("meta"):
        model = nn.Linear(3, 2)
    for make in (gradaccord.PCGrad, gradaccord.DotProd, gradaccord.SAM, gradaccord.FOMAML):
        with pytest.raises(
            ValueError, match="Parameter 'weight' is on the meta device and has no values"
        ):
            make(model)


def test_one_batch_under_several_heads_runs_the_trunk_forward_once():
    model = trunk()
    tokens, _ = batch(0)
    calls = []
    model.layers[0].register_forward_hook(lambda *_: calls.append(1))

    def losses():
        features = model.features(tokens)
        return {t: h(features).logsumexp(1).mean() for t, h in model.heads.items()}

    report = gradaccord.PCGrad(model).backward(losses)
    assert len(report.tasks) == 3
    assert len(calls) == 1


def test_an_error_in_the_backward_pass_of_a_shared_batch_is_the_user_s_own():
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise RuntimeError("my own")

    model = trunk()

    def both():
        features = model.features(batch(0)[0])
        return {
            "a": model.heads["a"](features).sum(),
            "b": Broken.apply(model.heads["b"](features)).sum(),
        }

    method = gradaccord.PCGrad(model)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="my own"):
            method.backward(both)
    assert not method.task_gradients.call_again
