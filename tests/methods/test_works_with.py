"""The methods work unchanged with what people already use in their loops."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial

import pytest
import torch
from every_method import METHODS as EVERY
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from toy import Trunk, assert_grads_close, autograd_of, batch, grads, loss_of, losses_of, trunk

import gradaccord
from gradaccord.data.samplers import ProportionalTasks, TaskBatches

METHODS = {
    "Sum": gradaccord.Sum,
    "PCGrad": gradaccord.PCGrad,
    "GradVac per layer": partial(gradaccord.GradVac, granularity="layer"),
    "GradNorm": gradaccord.GradNorm,
}


def trained(model, make, losses, steps=4, clip=None, schedule=True):
    """Final weights of an ordinary loop."""
    method = make(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, 1.0, 3)
    for step in range(steps):
        method.backward(losses(model, step))
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        method.after_step()
        optimizer.zero_grad()
        if schedule:
            scheduler.step()
    return {name.replace("_orig_mod.", ""): p.detach().clone() for name, p in model.named_parameters()}


def by_seed(model, step):
    return losses_of(model, seed=step)


def assert_same_weights(actual, expected, tolerance=1e-10):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value, rtol=tolerance, atol=tolerance, msg=name)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_with_schedule_and_clipping(name):
    model = trunk()
    tokens, labels = batch(0, size=32)
    before = float(loss_of(model, "a", tokens, labels).detach())
    same = {t: partial(loss_of, model, t, tokens, labels) for t in "abc"}
    trained(model, METHODS[name], lambda m, s: same, steps=30, clip=1.0)
    assert float(loss_of(model, "a", tokens, labels).detach()) < 0.7 * before


def test_clipping_sees_the_combined_gradient():
    model = trunk()
    gradaccord.PCGrad(model).backward(losses_of(model))
    nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    total = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    assert total == pytest.approx(1e-3, rel=1e-3)


class Checkpointed(Trunk):
    def features(self, tokens):
        return checkpoint(super().features, tokens, use_reentrant=False)


@pytest.mark.parametrize("form", ["own", "shared"])
def test_non_reentrant_activation_checkpointing(form):
    plain = trunk(dropout=0.3)
    remade = Checkpointed(dropout=0.3).double()
    remade.load_state_dict(plain.state_dict())

    def shared(model, step):
        tokens, labels = batch(step)

        def losses():
            features = model.features(tokens)
            return {t: F.cross_entropy(head(features), labels) for t, head in model.heads.items()}

        return losses

    results = []
    for model in (plain, remade):
        torch.manual_seed(1)  # dropout
        results.append(trained(model, gradaccord.PCGrad, by_seed if form == "own" else shared))
    assert_same_weights(results[1], results[0])


class AllHeads(nn.Module):
    """All heads at once, in one graph."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        features = self.model.features(tokens)
        return [head(features) for head in self.model.heads.values()]

    def losses(self, tokens, labels):
        return dict(zip("abc", [F.cross_entropy(o, labels) for o in self(tokens)], strict=True))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_model():
    """With inductor, whose backward gives its buffers away: a kept graph is an error there."""
    plain, compiled = AllHeads(trunk()), AllHeads(trunk())
    compiled.compile()

    def own(model, step):
        return {t: lambda i=i, t=t: model.losses(*batch(3 * step + i))[t] for i, t in enumerate("abc")}

    expected = trained(plain, gradaccord.PCGrad, own, steps=3)
    assert_same_weights(trained(compiled, gradaccord.PCGrad, own, steps=3), expected)

    def shared(model, step):
        return partial(model.losses, *batch(step))

    def partly(model, step):
        tokens, labels = batch(step)

        def losses():  # the first task goes past the compiled code
            eager = model.model.heads["a"](model.model.words(tokens).mean(1))
            return {"eager": F.cross_entropy(eager, labels)} | model.losses(tokens, labels)

        return losses

    for losses in (shared, partly):
        expected = trained(plain, gradaccord.PCGrad, losses, steps=3)
        with pytest.warns(UserWarning, match="does not let a graph be used twice"):
            found = trained(compiled, gradaccord.PCGrad, losses, steps=3)
        assert_same_weights(found, expected)


@pytest.mark.parametrize("name", METHODS)
def test_shared_batch_equals_own_batches_of_the_same_data(name):
    models = trunk(), trunk()
    methods = [METHODS[name](m) for m in models]
    for step in range(3):
        tokens, labels = batch(step)
        own = {t: partial(loss_of, models[0], t, tokens, labels) for t in "abc"}

        def together(model=models[1], tokens=tokens, labels=labels):
            features = model.features(tokens)
            return {t: F.cross_entropy(h(features), labels) for t, h in model.heads.items()}

        reports = methods[0].backward(own), methods[1].backward(together)
        torch.testing.assert_close(reports[1].gram, reports[0].gram)
        assert_grads_close(grads(models[1]), grads(models[0]))


def test_shared_batch_in_micro_batches_with_item_counts():
    whole, cut = trunk(rows=3000), trunk(rows=3000)
    tokens, labels = batch(0, size=11, rows=3000)

    def losses(model, x, y, counted):
        features = model.features(x)
        values = {t: F.cross_entropy(h(features), y) for t, h in model.heads.items()}
        return {t: (v, len(y)) for t, v in values.items()} if counted else values

    expected = gradaccord.GradVac(whole).backward(partial(losses, whole, tokens, labels, False))
    report = gradaccord.GradVac(cut).backward(
        [partial(losses, cut, tokens[a:b], labels[a:b], True) for a, b in ((0, 3), (3, 4), (4, 11))]
    )
    torch.testing.assert_close(report.losses, expected.losses)
    assert_grads_close(grads(cut), grads(whole))


class Normalised(Trunk):
    """With batch norm and dropout, whose state a second forward pass would move on."""

    def __init__(self, **options):
        super().__init__(dropout=0.4)
        self.norm = nn.BatchNorm1d(6)

    def features(self, tokens):
        return self.norm(super().features(tokens))


def test_shared_batch_run_again_per_task_is_the_same_forward():
    """Where a graph cannot be kept: same masks for all tasks, running statistics moved once."""
    torch.manual_seed(0)
    kept, again = Normalised().double(), Normalised().double()
    again.load_state_dict(kept.state_dict())
    tokens, labels = batch(0)
    for model, call_again in ((kept, False), (again, True)):
        method = gradaccord.PCGrad(model)
        method.task_gradients.call_again = call_again
        torch.manual_seed(3)

        def losses(model=model):
            features = model.features(tokens)
            return {t: F.cross_entropy(h(features), labels) for t, h in model.heads.items()}

        method.backward(losses)
        model.after = torch.rand(1)
    assert_grads_close(grads(again), grads(kept))
    assert torch.equal(again.after, kept.after)  # the random stream stands where it should
    assert torch.equal(again.norm.running_mean, kept.norm.running_mean)
    assert again.norm.num_batches_tracked == 1


def test_frozen_parameters_and_gradual_unfreezing():
    model = trunk()
    model.words.requires_grad_(False)
    method = gradaccord.PCGrad(model)
    method.backward(losses_of(model))
    assert model.words.weight.grad is None
    assert model.layers[0].weight.grad is not None
    model.words.requires_grad_(True)
    method.backward(losses_of(model))
    assert model.words.weight.grad is not None


class Partly(Trunk):
    """Task c skips the second layer: a parameter that some tasks do not reach."""

    def forward(self, tokens, task):
        hidden = torch.tanh(self.layers[0](self.words(tokens).mean(1)))
        hidden = torch.tanh(self.layers[1](hidden)) if task != "c" else hidden[:, :6]
        return self.heads[task](hidden)


@pytest.mark.parametrize("name", METHODS)
def test_parameters_that_some_tasks_do_not_reach(name):
    torch.manual_seed(0)
    model = Partly().double()
    losses = losses_of(model)
    METHODS[name](model).backward(losses)
    if name == "Sum":
        assert_grads_close(grads(model), autograd_of(model, sum(f() for f in losses.values())))
    # With c alone against a, layer 1 has one task and keeps that task's gradient.
    two = {t: losses[t] for t in ("a", "c")}
    METHODS[name](model).backward(two)
    alone = torch.autograd.grad(losses["a"](), model.layers[1].weight)[0]
    torch.testing.assert_close(model.layers[1].weight.grad, alone)


def test_parameters_that_no_task_reaches_keep_no_gradient():
    model = trunk(tasks=("a", "b", "c", "unused"))
    gradaccord.PCGrad(model).backward(losses_of(model))
    assert model.heads["unused"].weight.grad is None


def test_shared_parameters_can_be_given():
    model = trunk()
    report = gradaccord.PCGrad(model, shared=["layers"]).backward(losses_of(model))
    losses = losses_of(model)
    rows = torch.stack(
        [
            torch.cat([g.flatten() for g in torch.autograd.grad(f(), list(model.layers.parameters()))])
            for f in losses.values()
        ]
    )
    torch.testing.assert_close(report.gram, rows @ rows.T)
    expected = autograd_of(model, sum(f() for f in losses.values()))["words.weight"]
    torch.testing.assert_close(model.words.weight.grad, expected)  # not shared: the plain sum


def test_mean_is_the_gradient_of_the_mean_loss():
    model = trunk()
    losses = losses_of(model)
    gradaccord.Mean(model).backward(losses)
    assert_grads_close(grads(model), autograd_of(model, sum(f() for f in losses.values()) / 3))


def test_iterable_of_named_parameters_equals_the_model():
    one, other = trunk(), trunk()
    gradaccord.PCGrad(one).backward(losses_of(one))
    gradaccord.PCGrad(other.named_parameters()).backward(losses_of(other))
    assert_grads_close(grads(other), grads(one))


def test_complex_and_half_precision_parameters():
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(5, dtype=torch.complex128))
    targets = torch.randn(2, 5, dtype=torch.complex128)
    losses = {f"t{i}": (lambda t=t: (weight - t).abs().square().sum()) for i, t in enumerate(targets)}
    report = gradaccord.Sum([("weight", weight)]).backward(losses)
    parts = torch.view_as_real(2 * (weight.detach() - targets)).flatten(1)
    torch.testing.assert_close(report.gram, parts @ parts.T)

    rows = torch.randn(40, 64).bfloat16()
    half = nn.Parameter(torch.zeros(64, dtype=torch.bfloat16))
    losses = {f"t{i:02}": (lambda g=g: (half * g).sum()) for i, g in enumerate(rows)}
    gradaccord.Sum([("weight", half)]).backward(losses)
    exact = rows.double().sum(0)
    assert (half.grad.double() - exact).norm() / exact.norm() < 4e-3  # one rounding, not forty


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_peft_lora():
    peft = pytest.importorskip("peft", reason="PEFT is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=100, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    encoder = transformers.BertModel(config, add_pooling_layer=False)
    lora = peft.get_peft_model(
        encoder, peft.LoraConfig(r=4, target_modules=["query", "value"], init_lora_weights=False)
    ).eval()
    head = nn.Linear(16, 3)
    model = nn.ModuleDict({"encoder": lora, "head": head})

    def loss(seed):
        tokens, labels = batch(seed, rows=100)
        return F.cross_entropy(head(lora(tokens).last_hidden_state[:, 0]), labels)

    losses = {"a": partial(loss, 0), "b": partial(loss, 1)}
    method = gradaccord.PCGrad(model, granularity="layer")
    report = method.backward(losses)
    reached = {name for name, p in model.named_parameters() if p.grad is not None}
    assert reached == {name for name, p in model.named_parameters() if p.requires_grad}
    assert all("lora" in name or "head" in name for name in reached)
    rows = torch.stack(
        [
            torch.cat(
                [
                    g.flatten()
                    for g in torch.autograd.grad(
                        f(), [p for p in model.parameters() if p.requires_grad]
                    )
                ]
            )
            for f in losses.values()
        ]
    ).double()
    torch.testing.assert_close(report.gram, rows @ rows.T, rtol=1e-5, atol=1e-6)


class Waves(nn.Module):
    """Complex weights and a real one; or the same numbers as pairs of reals."""

    def __init__(self, pairs):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        draw = partial(torch.randn, generator=generator, dtype=torch.complex128)
        shapes = {"table": (2048, 2), "a": (2, 4), "b": (4, 3), "c": (4, 3)}
        values = {name: draw(*shape) for name, shape in shapes.items()}
        self.values = nn.ParameterDict(
            {name: torch.view_as_real(v).clone() if pairs else v for name, v in values.items()}
        )
        self.scale = nn.Parameter(torch.ones(3, dtype=torch.float64))
        self.pairs = pairs

    def loss(self, task, seed):
        weights = {n: torch.view_as_complex(v) if self.pairs else v for n, v in self.values.items()}
        tokens, labels = batch(seed, rows=2048)
        hidden = torch.tanh(weights["table"][tokens].mean(1) @ weights["a"])
        waves = hidden @ weights["b" if task == "a" else "c"].conj()
        return F.cross_entropy(waves.abs() * self.scale + waves.imag, labels)


@contextmanager
def default_device(device):
    before = torch.get_default_device()
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(before)


def steps_of(name, device):
    """Weights and reports of a few steps, the method built and run under a default device."""
    make, tasks = EVERY[name]
    model = trunk()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = [losses_of(model, tasks, seed) for seed in range(6)]
    found = []
    with default_device(device):
        method = make(model, optimizer)
        for losses in steps:
            report = method.backward(losses)
            found += [report.losses, report.gram, report.weights]
            optimizer.step()
            method.after_step()
            optimizer.zero_grad()
            method.load_state_dict(method.state_dict())
            report.to_floats()
    return found + [p.detach() for p in model.parameters()]


@pytest.mark.parametrize("name", EVERY)
def test_a_default_device_other_than_the_cpu_mixed_devices(name):
    """On the meta device every tensor that was meant for the CPU would have lost its values."""
    for found, expected in zip(steps_of(name, "meta"), steps_of(name, "cpu"), strict=True):
        assert found.device.type == "cpu"
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("kind", ["SMART", "SWEP"])
def test_a_default_device_other_than_the_cpu_under_a_wrapped_loss(kind):
    found = []
    for device in ("meta", "cpu"):
        model = trunk()
        tokens, labels = batch(0)
        with default_device(device):
            if kind == "SMART":
                wrapper = gradaccord.SMART(model, epsilon=0.1, bregman=1.0, probe_every=1)
            else:
                wrapper = gradaccord.SWEP(model, encoder="words")
            torch.manual_seed(1)
            method = gradaccord.PCGrad(model)
            forward, loss = partial(model, tokens, "a"), partial(F.cross_entropy, target=labels)
            method.backward({"a": wrapper.loss(forward, loss)})
            wrapper.after_step()
            found.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)


def test_a_default_device_other_than_the_cpu_under_the_samplers():
    found = []
    for device in ("meta", "cpu"):
        with default_device(device):
            tasks = ProportionalTasks({"a": 10, "b": 90}, seed=3)
            batches = TaskBatches(range(23), 4, seed=3)
            found.append([(next(tasks), next(batches)) for _ in range(9)])
    assert found[0] == found[1]


@pytest.mark.parametrize("name", sorted(set(EVERY) - {"DotProd, noise"}))  # a sign per number
def test_complex_weights_are_pairs_of_real_ones(name):
    """An independent reference: with pairs of reals there is no conjugate to be forgotten."""
    make, tasks = EVERY[name]
    found = []
    for pairs in (False, True):
        model = Waves(pairs)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        method = make(list(model.named_parameters()), optimizer)
        for step in range(6):
            report = method.backward({t: partial(model.loss, t, 10 * step + ord(t)) for t in tasks})
            optimizer.step()
            method.after_step()
            optimizer.zero_grad()
        weights = [torch.view_as_real(p) if p.is_complex() else p for p in model.parameters()]
        found.append(torch.cat([w.detach().flatten() for w in weights]))
        found.append(report.gram.nan_to_num())
    torch.testing.assert_close(found[0], found[2], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found[1], found[3], rtol=1e-10, atol=1e-12)
