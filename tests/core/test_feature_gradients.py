"""`decide="features"`: by the gradients at the shared representation, with one pass of the trunk."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from toy import assert_grads_close, autograd_of, batch, grads, losses_of, trunk

import gradaccord
from gradaccord.methods.registry import METHODS


class Counting(nn.Module):
    """A trunk whose backward passes are counted, in front of heads of which two share a layer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.second = nn.Linear(6, 5)
        self.middle = nn.Linear(5, 5)
        self.heads = nn.ModuleDict({task: nn.Linear(5, 1) for task in "abc"})
        self.backward_passes = 0

    def losses(self):
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        hidden = torch.tanh(self.first(x))
        hidden.register_hook(self._count)
        self.representation = torch.tanh(self.second(hidden))
        between = torch.tanh(self.middle(self.representation))
        outputs = {"a": self.representation, "b": between, "c": between}
        targets = {"a": 1.0, "b": -1.0, "c": 0.5}
        return {t: (self.heads[t](outputs[t]) - targets[t]).square().mean() for t in "abc"}

    def _count(self, gradient):
        self.backward_passes += 1


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Counting().double()


def weights_by_hand(model, make):
    """The method on the gradients at the representation and, exactly, of the layer behind it."""
    losses = model.losses()
    rows = []
    for loss in losses.values():
        found = torch.autograd.grad(
            loss,
            [model.representation, *model.middle.parameters()],
            retain_graph=True,
            allow_unused=True,
        )
        shapes = [model.representation, *model.middle.parameters()]
        rows.append(
            torch.cat(
                [
                    (torch.zeros_like(s) if g is None else g).flatten()
                    for g, s in zip(found, shapes, strict=True)
                ]
            )
        )
    rows = torch.stack(rows).detach()
    weight = nn.Parameter(torch.zeros(rows.shape[1], dtype=torch.float64))
    oracle = make([("weight", weight)])
    return oracle.backward(
        {t: lambda r=r: (weight * r).sum() + 1 for t, r in zip("abc", rows, strict=True)}
    )


@pytest.mark.parametrize("make", [gradaccord.PCGrad, gradaccord.GradVac, gradaccord.ConFIG])
def test_weights_follow_from_the_representation_and_the_gradient_is_exact_for_them(make, model):
    expected = weights_by_hand(model, make)
    model.backward_passes = 0
    report = make(model, decide="features").backward(model.losses)
    assert model.backward_passes == 1
    torch.testing.assert_close(report.gram, expected.gram)
    torch.testing.assert_close(report.weights, expected.weights)
    found = grads(model)
    losses = model.losses()
    weighted = sum(w * loss for w, loss in zip(report.weights, losses.values(), strict=True))
    reference = autograd_of(model, weighted)
    plain = autograd_of(model, sum(model.losses().values()))
    reference |= {name: g for name, g in plain.items() if name.startswith("heads")}
    assert_grads_close(found, reference)


def test_an_orthogonal_trunk_makes_it_exact():
    """With z = x W and one example, |x| = 1, the gradient of W is x z', as long as that of z."""
    torch.manual_seed(0)
    net = nn.Linear(4, 6, bias=False).double()
    heads = nn.ModuleDict({t: nn.Linear(6, 1, bias=False) for t in "abc"}).double()
    both = nn.ModuleList([net, heads])
    x = F.normalize(torch.randn(1, 4, dtype=torch.float64))

    def call():
        hidden = net(x)
        return {t: (head(hidden) - 3 * i).square().mean() for i, (t, head) in enumerate(heads.items())}

    exact = gradaccord.PCGrad(both).backward(call)
    gradient = grads(both)
    features = gradaccord.PCGrad(both, decide="features").backward(call)
    torch.testing.assert_close(features.gram, exact.gram)
    torch.testing.assert_close(features.weights, exact.weights)
    assert_grads_close(grads(both), gradient)


def test_item_counts_and_the_mean(model):
    def counted():
        return {task: (loss, 4) for task, loss in model.losses().items()}

    plain = gradaccord.Mean(model, decide="features").backward(model.losses)
    gradient = grads(model)
    report = gradaccord.Mean(model, decide="features").backward(counted)
    torch.testing.assert_close(report.gram, plain.gram)
    assert_grads_close(grads(model), gradient)
    assert_grads_close(gradient, autograd_of(model, sum(model.losses().values()) / 3))


def test_loss_scale(model):
    plain = gradaccord.PCGrad(model, decide="features").backward(model.losses)
    gradient = grads(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    report = gradaccord.PCGrad(model, decide="features", engine=scaler).backward(model.losses)
    torch.testing.assert_close(report.gram, plain.gram)
    assert_grads_close({n: g / 8 for n, g in grads(model).items()}, gradient)


def test_one_task_is_the_plain_gradient(model):
    def alone():
        return {"a": model.losses()["a"]}

    gradaccord.PCGrad(model, decide="features").backward(alone)
    assert_grads_close(grads(model), autograd_of(model, alone()["a"]))


def test_a_tied_weight_in_the_heads_does_not_pull_the_trunk_into_the_cut():
    table = trunk(rows=30)
    tokens, labels = batch(1, rows=30)
    calls = []

    def call():
        embedded = table.words(tokens)
        embedded.register_hook(lambda g: calls.append(1))
        hidden = torch.tanh(table.layers[1](torch.tanh(table.layers[0](embedded.mean(1)))))
        logits = hidden @ table.words.weight.T
        return {"a": F.cross_entropy(logits, labels), "b": logits.square().mean()}

    report = gradaccord.PCGrad(table, decide="features").backward(call)
    assert len(calls) == 1
    losses = call()
    weighted = sum(w * loss for w, loss in zip(report.weights, losses.values(), strict=True))
    found = {n: g for n, g in grads(table).items() if not n.startswith("heads")}
    expected = {n: g for n, g in autograd_of(table, weighted).items() if not n.startswith("heads")}
    assert_grads_close(found, expected)


def test_own_batches_and_micro_batches_are_refused(model):
    method = gradaccord.PCGrad(trunk(), decide="features")
    with pytest.raises(ValueError, match="needs one batch under several heads"):
        method.backward(losses_of(trunk()))
    with pytest.raises(ValueError, match="needs one batch under several heads"):
        gradaccord.PCGrad(model, decide="features").backward([model.losses, model.losses])


def test_losses_without_a_common_tensor_are_refused():
    net = trunk()
    with pytest.raises(ValueError, match="no tensor is used by two of the losses"):
        gradaccord.PCGrad(net.heads, decide="features").backward(
            lambda: {
                "a": net.heads["a"](torch.ones(1, 6, dtype=torch.float64)).sum(),
                "b": net.heads["b"](torch.ones(1, 6, dtype=torch.float64)).sum(),
            }
        )
    assert all(p.grad is None for p in net.parameters())


def test_what_does_not_fit_is_refused():
    for options in ({"granularity": "layer"}, {"shared": ["layers"]}):
        with pytest.raises(ValueError, match="leave `granularity` and `shared` out"):
            gradaccord.PCGrad(trunk(), decide="features", **options)
    with pytest.raises(TypeError, match="GradNorm compares gradient norms in a layer"):
        gradaccord.GradNorm(trunk(), decide="features")
    with pytest.raises(ValueError, match="every task has batches of its own"):
        METHODS["pcgrad"].check({"decide": "features"})


def test_an_error_leaves_everything_as_before(model):
    method = gradaccord.GradVac(model, decide="features")
    method.backward(model.losses)
    before = grads(model)

    def broken():
        return model.losses() | {"b": model.losses()["b"] * float("nan")}

    with pytest.raises(ValueError, match="Task 'b' has the loss nan"):
        method.backward(broken)
    assert all(p.grad is before[name] for name, p in model.named_parameters())
    assert method.task_gradients._step is None
