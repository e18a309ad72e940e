"""What all combination methods share, named after the failures of other tools."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from toy import (
    Vectors,
    autograd_of,
    losses_of,
    trunk,
)
from weighting_problems import jacobian

import gradaccord
from gradaccord.core.parameters import Partition

torchjd = pytest.importorskip("torchjd.aggregation", reason="the oracle TorchJD is not installed")


@pytest.mark.parametrize("make", [gradaccord.PCGrad, gradaccord.GradVac], ids=["PCGrad", "GradVac"])
def test_no_conflict_is_the_plain_sum(make):
    rows = torch.rand(4, 6, dtype=torch.float64)  # all in the positive orthant
    model = Vectors(rows)
    report = make(model).backward(model.losses())
    assert torch.equal(report.weights, torch.ones(4, dtype=torch.float64))
    torch.testing.assert_close(model.weight.grad, rows.sum(0))
    assert report.conflicts == 0


@pytest.mark.parametrize(
    "make",
    [
        gradaccord.Sum,
        gradaccord.Mean,
        gradaccord.PCGrad,
        lambda m: gradaccord.GradVac(m, granularity="layer"),
        lambda m: gradaccord.PCGrad(m, normalize=True),
        gradaccord.ConFIG,
        gradaccord.GradNorm,
        lambda m: gradaccord.TorchJD(m, torchjd.UPGradWeighting()),
    ],
    ids=["Sum", "Mean", "PCGrad", "GradVac", "normalized", "ConFIG", "GradNorm", "TorchJD"],
)
def test_one_task_is_the_plain_gradient(make):
    model = trunk()
    only = {"b": losses_of(model)["b"]}
    method = make(model)
    report = method.backward(only)
    found = {name: p.grad for name, p in model.named_parameters()}
    model.zero_grad()
    only["b"]().backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            assert found[name] is None
        else:
            torch.testing.assert_close(found[name], parameter.grad, rtol=1e-12, atol=1e-14)
    assert report.tasks == ("b",)
    assert report.finite
    decides_by_lengths = isinstance(method, gradaccord.GradNorm | gradaccord.TorchJD)
    assert torch.isnan(report.norms[0]) != decides_by_lengths


@pytest.mark.parametrize("make", [gradaccord.PCGrad, gradaccord.GradVac], ids=["PCGrad", "GradVac"])
@given(seed=st.integers(0, 10_000), shuffle=st.permutations(range(4)))
@settings(max_examples=25, deadline=None)
def test_order_of_tasks_permutes_the_report_and_not_the_result(make, seed, shuffle):
    rows = jacobian(4, seed, "random")
    names = [f"t{i}" for i in range(4)]
    one, other = Vectors(rows), Vectors(rows[list(shuffle)])
    methods = make(one), make(other)
    for _ in range(3):  # the state moves on alike, too
        first = methods[0].backward(one.losses(names))
        second = methods[1].backward(other.losses([names[i] for i in shuffle]))
    assert torch.equal(one.weight.grad, other.weight.grad)
    assert second.tasks == tuple(names[i] for i in shuffle)
    torch.testing.assert_close(second.gram, first.gram[list(shuffle)][:, list(shuffle)])
    torch.testing.assert_close(second.weights, first.weights[list(shuffle)])


CONFLICT = torch.tensor([[1.0, 0.0, 0.5], [-1.0, 1.0, 0.0]], dtype=torch.float64)


class ConflictWithHeads(nn.Module):
    """Two tasks whose trunk gradients conflict, each with a head of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = Vectors(CONFLICT)
        self.heads = nn.ParameterDict(
            {t: nn.Parameter(torch.ones(2, dtype=torch.float64)) for t in ("t0", "t1")}
        )

    def losses(self):
        return {
            task: (lambda t=task, f=loss: f() + 3 * self.heads[t].sum())
            for task, loss in self.trunk.losses().items()
        }


@pytest.mark.parametrize("make", [gradaccord.PCGrad, gradaccord.GradVac], ids=["PCGrad", "GradVac"])
def test_01_heads_projected_together_with_the_trunk(make):
    model = ConflictWithHeads()
    report = make(model).backward(model.losses())
    assert report.conflicts == 1
    assert not torch.equal(model.trunk.weight.grad, CONFLICT.sum(0))  # the trunk is treated,
    for head in model.heads.values():  # the heads are not,
        assert torch.equal(head.grad, torch.full((2,), 3.0, dtype=torch.float64))
    expected = CONFLICT @ CONFLICT.T  # and their gradients are not in the norms
    torch.testing.assert_close(report.gram, expected)


def test_03_one_inf_batch_poisons_the_state():
    model = trunk()
    method = gradaccord.GradVac(model, granularity="layer", engine=torch.amp.GradScaler("cpu"))
    method.backward(losses_of(model))
    before = method.state_dict()
    bad = losses_of(model, seed=1)
    bad["b"] = partial(lambda f: f() * float("inf"), bad["b"])
    report = method.backward(bad)
    assert not report.finite
    assert not all(torch.isfinite(p.grad).all() for p in model.parameters())  # the scaler will see it
    after = method.state_dict()
    assert torch.equal(after["targets"], before["targets"])
    assert torch.equal(after["generator"], before["generator"])
    model.zero_grad()
    assert method.backward(losses_of(model, seed=2)).finite


def test_04_state_that_cannot_be_loaded_or_is_lost_when_tasks_change():
    model = trunk()
    method = gradaccord.GradVac(model, beta=0.5)
    method.backward(losses_of(model))
    kept = method.targets[0, method.tasks.index("a"), method.tasks.index("c")].item()
    assert kept != 0
    two = losses_of(model, seed=1)
    del two["c"]  # c is away for a step
    method.backward(two)
    targets = method.targets[0]
    assert targets[method.tasks.index("a"), method.tasks.index("c")].item() == kept
    fresh = gradaccord.GradVac(model, beta=0.5)
    fresh.load_state_dict(method.state_dict())
    expected = method.backward(losses_of(model, seed=2))
    assert torch.equal(fresh.backward(losses_of(model, seed=2)).weights, expected.weights)


class Attention(nn.Module):
    """A module that holds parameters directly (in_proj_weight) beside submodules that hold others."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.heads = nn.ModuleDict({t: nn.Linear(4, 1) for t in "ab"})

    def loss(self, task: str, seed: int) -> torch.Tensor:
        x = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(seed)) * self.scale
        return self.heads[task](self.attention(x, x, x)[0]).square().mean()


@pytest.mark.parametrize("granularity", ["model", "layer", "tensor"])
def test_06_per_layer_that_skips_parameters_held_directly_by_a_module(granularity):
    torch.manual_seed(0)
    model = Attention()
    method = gradaccord.GradVac(model, granularity=granularity)
    assert min(method.partition.index) == 0  # every parameter has a group
    method.backward({t: partial(model.loss, t, i) for i, t in enumerate("ab")})
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def test_06_groups_that_overlap_or_leave_a_shared_parameter_out():
    names = ["layers.0.weight", "layers.1.weight", "heads.a.weight"]
    with pytest.raises(ValueError, match=r"'layers.0.weight' into two groups, 'one' and 'two'"):
        Partition.of(names, {"one": ["layers"], "two": ["layers.0"]})
    model = trunk()
    method = gradaccord.PCGrad(model, granularity={"trunk": ["layers"]})
    with pytest.raises(ValueError, match="leaves out the shared parameter 'words.weight'"):
        method.backward(losses_of(model))
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("make", [gradaccord.PCGrad, gradaccord.GradVac, gradaccord.GradNorm])
def test_09_zero_gradient_of_one_task(make):
    rows = torch.tensor([[1.0, 2.0], [0.0, 0.0], [-2.0, 1.0]], dtype=torch.float64)
    model = Vectors(rows)
    method = make(model)
    for _ in range(3):
        report = method.backward(model.losses())
        assert torch.isfinite(model.weight.grad).all()
        assert torch.isfinite(report.weights).all()
    assert all(v == v for k, v in report.to_floats().items() if k != "mean_cosine")
    assert ("t0", "t1") not in report.pairs


@pytest.mark.parametrize("make", [gradaccord.PCGrad, gradaccord.GradVac])
def test_12_random_order_from_the_global_generator(make):
    model = trunk()
    results = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        make(model, seed=5).backward(losses_of(model))
        assert torch.equal(torch.get_rng_state(), before)
        results.append(model.layers[0].weight.grad.clone())
    assert torch.equal(*results)  # the global seed has no say in it


NORMALISED = {
    "Sum": gradaccord.Sum,
    "Mean": gradaccord.Mean,
    "PCGrad": partial(gradaccord.PCGrad, seed=3),
    "GradVac by layer": partial(gradaccord.GradVac, granularity="layer", beta=0.4, seed=3),
    "ConFIG": gradaccord.ConFIG,
    "MGDA": partial(gradaccord.TorchJD, weighting="MGDA"),
    "UPGrad": partial(gradaccord.TorchJD, weighting="UPGrad"),
}


@pytest.mark.parametrize("name", NORMALISED)
def test_normalize_is_the_method_on_losses_scaled_to_gradients_of_one_length(name):
    if name in ("MGDA", "UPGrad"):
        pytest.importorskip("torchjd", reason="TorchJD is not installed")
    scale = {"a": 1.0, "b": 30.0, "c": 0.02}
    found, expected = trunk(), trunk()
    methods = NORMALISED[name](found, normalize=True), NORMALISED[name](expected)
    shared = [*expected.words.parameters(), *expected.layers.parameters()]
    for step in range(3):
        losses = [
            {t: (lambda f=f, t=t: scale[t] * f()) for t, f in losses_of(m, seed=step).items()}
            for m in (found, expected)
        ]
        lengths = {}
        for task, loss in losses[1].items():
            gradient = torch.autograd.grad(loss(), shared)
            lengths[task] = float(torch.cat([g.flatten() for g in gradient]).norm())
        mean = sum(lengths.values()) / 3
        factors = {task: mean / length for task, length in lengths.items()}
        report = methods[0].backward(losses[0])
        methods[1].backward({t: (lambda f=f, k=factors[t]: k * f()) for t, f in losses[1].items()})
        for (label, one), other in zip(found.named_parameters(), expected.parameters(), strict=True):
            head = label.split(".")[1] if label.startswith("heads") else None
            factor = 1 / factors[head] if head else 1.0  # heads are left as they were
            torch.testing.assert_close(one.grad, factor * other.grad, rtol=1e-6, atol=1e-8)
        for i, task in enumerate("abc"):  # the report tells of the gradients as they were
            assert float(report.norms[i]) == pytest.approx(lengths[task])


def test_normalize_leaves_a_task_without_gradient_out():
    rows = torch.tensor([[3.0, 0.0], [0.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    model = Vectors(rows)
    gradaccord.Sum(model, normalize=True).backward(model.losses())
    torch.testing.assert_close(model.weight.grad, torch.tensor([2.0, 2.0]).double())


def test_a_report_has_the_weights_of_each_group_that_tasks_share():
    model = trunk()
    losses = losses_of(model)
    own = [dict(autograd_of(model, call())) for call in losses.values()]
    report = gradaccord.PCGrad(model, granularity="layer").backward(losses)
    assert report.groups == ("words", "layers.0", "layers.1")
    assert report.weights.shape == (3, 3)
    assert len({tuple(row) for row in report.weights.tolist()}) == 3
    for group, weights in zip(report.groups, report.weights, strict=True):
        for name, parameter in model.named_parameters():
            if name.startswith(f"{group}."):
                expected = sum(w * gradients[name] for w, gradients in zip(weights, own, strict=True))
                torch.testing.assert_close(parameter.grad, expected, rtol=1e-12, atol=1e-14)
    of_tasks = gradaccord.GradNorm(model).backward(losses)  # which uses groups for something else
    assert (of_tasks.groups, of_tasks.weights.shape) == ((), (3,))


def test_a_lambda_in_a_loop_is_noticed_in_the_first_step():
    """All see the loop's last task: the loss of one task, under every name."""
    model = trunk()
    right = losses_of(model)
    trapped = {}
    for name in right:
        trapped[name] = lambda: right[name]()  # noqa: B023
    method = gradaccord.PCGrad(model)
    with pytest.warns(UserWarning, match="exactly the same loss and gradient.*functools.partial"):
        method.backward(trapped)
    method.backward(trapped)  # once is enough
    gradaccord.PCGrad(model).backward(right)


def test_equal_losses_with_different_gradients_are_no_mistake():
    weights = torch.nn.Parameter(torch.zeros(2))
    losses = {name: partial(lambda k: weights[k] + 1.0, k) for k, name in enumerate("ab")}
    gradaccord.PCGrad([("w", weights)]).backward(losses)
