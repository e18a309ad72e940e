"""Edges that all methods have: copies, losses that reach nothing, gradients that are not finite."""

import copy
import pickle
from functools import partial

import pytest
import torch
from torch import nn
from toy import batch, loss_of, losses_of, trunk

import gradaccord

METHODS = {
    "Sum": gradaccord.Sum,
    "Mean": gradaccord.Mean,
    "PCGrad": partial(gradaccord.PCGrad, granularity="layer"),
    "GradVac": partial(gradaccord.GradVac, beta=0.3),
    "GradNorm": partial(gradaccord.GradNorm, lr=0.2),
    "PairedSum": gradaccord.PairedSum,
    "DotProd": gradaccord.DotProd,
    "DotProd, differences": partial(gradaccord.DotProd, mode="difference"),
    "SAM": gradaccord.SAM,
    "SAM on pairs": partial(gradaccord.SAM, batches=2),
    "Reptile": partial(gradaccord.Reptile, inner_steps=3),
    "SequentialReptile": partial(gradaccord.SequentialReptile, inner_steps=3, outer_lr=0.5),
    "FOMAML": partial(gradaccord.FOMAML, inner_steps=3),
    "MultiTaskReptile": partial(gradaccord.MultiTaskReptile, tasks=2, inner_steps=3),
    "UPGrad": lambda model, optimizer=None: gradaccord.TorchJD(model, "UPGrad"),
    "Nash-MTL": lambda model, optimizer=None: gradaccord.TorchJD(model, "NashMTL", n_tasks=2),
    "PCD": lambda model, optimizer=None: gradaccord.TorchJD(model, "PCD"),
    "Random": lambda model, optimizer=None: gradaccord.TorchJD(model, "Random"),
}
TRAJECTORIES = ("Reptile", "SequentialReptile", "FOMAML", "MultiTaskReptile")


def made(name, model):
    """The method, and an optimiser with moments."""
    if name in ("UPGrad", "Nash-MTL", "PCD", "Random"):
        pytest.importorskip("torchjd", reason="TorchJD is not installed")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    own = {"optimizer": optimizer} if name in TRAJECTORIES else {}
    return METHODS[name](model, **own), optimizer


def given(name, model, step):
    """What a step takes: two tasks, or one."""
    one = name in (*TRAJECTORIES, "SAM")
    task = "a" if name == "MultiTaskReptile" else "ab"[step % 2]
    return losses_of(model, task if one else "ab", seed=step)


def train(name, model, method, optimizer, steps):
    for step in steps:
        method.backward(given(name, model, step))
        optimizer.step()
        method.after_step()


# Copies

COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda triple: pickle.loads(pickle.dumps(triple)),
}


@pytest.mark.filterwarnings("ignore:.*not DPP:UserWarning")
@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", METHODS)
def test_a_copy_of_model_and_method_goes_on_as_the_original_and_alone(name, way):
    model = trunk(dropout=0.0)
    method, optimizer = made(name, model)
    train(name, model, method, optimizer, range(2))  # within a trajectory
    other, twin, optimizer_of_twin = COPIES[way]((model, method, optimizer))
    start = [p.detach().clone() for p in other.parameters()]
    train(name, model, method, optimizer, range(2, 7))
    assert all(torch.equal(p, q) for p, q in zip(other.parameters(), start, strict=True))
    train(name, other, twin, optimizer_of_twin, range(2, 7))
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q)
    assert not torch.equal(start[0], next(other.parameters()))


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", ["PairedSum", "DotProd", "SAM on pairs"])
def test_a_copy_between_the_halves_of_a_pair(name, way):
    model = trunk()
    method, optimizer = made(name, model)
    method.backward({"a": partial(loss_of, model, "a", *batch(1))})
    other, twin, _ = COPIES[way]((model, method, optimizer))
    for own, half in ((model, method), (other, twin)):
        half.backward({"b": partial(loss_of, own, "b", *batch(2))})
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None)
        assert p.grad is None or torch.equal(p.grad, q.grad)


def test_a_copied_pair_that_must_run_its_first_batch_again_says_so():
    """Its callable is about the original model."""
    model = trunk()
    method = gradaccord.DotProd(model, scheme="symmetric")
    method.backward({"a": lambda: loss_of(model, "a", *batch(1))})
    other, twin = copy.deepcopy((model, method))
    with pytest.raises(
        ValueError, match="'a' comes from a checkpoint or a copy and cannot be run again"
    ):
        twin.backward({"b": lambda: loss_of(other, "b", *batch(2))})
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("name", ["PCGrad", "DotProd", "Reptile"])
def test_a_copy_of_the_method_alone_has_weights_of_its_own_and_says_so(name):
    model = trunk()
    method, _ = made(name, model)
    twin = copy.deepcopy(method)
    with pytest.raises(ValueError, match="Task 'a' has a loss that reaches none of the method's"):
        twin.backward(given(name, model, 0))


# Losses that reach nothing


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


# Gradients that are not finite


def length_at_zero(model):
    """A finite loss whose gradient is NaN, by a common mistake: the square root of a sum of squares."""
    weight = model.layers[0].weight
    return loss_of(model, "a", *batch(1)) + (weight - weight.detach()).square().sum().sqrt()


@pytest.mark.parametrize("name", ["Sum", "PCGrad", "GradVac", "PairedSum", "SAM", *TRAJECTORIES])
def test_nan_in_grad_is_never_reported_as_finite(name):
    model = trunk()
    assert made(name, model)[0].backward(given(name, model, 0)).finite
    report = made(name, model)[0].backward({"a": lambda: length_at_zero(model)})
    assert torch.isfinite(report.losses).all()
    assert not report.finite
    assert report.to_floats()["finite"] == 0


def test_sum_that_measures_nothing_still_sees_nan():
    model = trunk()
    report = gradaccord.Sum(model, measure=False).backward({"a": lambda: length_at_zero(model)})
    assert not report.finite
    assert gradaccord.Sum(model, measure=False).backward(losses_of(model)).finite


@pytest.mark.parametrize("batches", [1, 2])
def test_sam_tells_of_a_displaced_pass_that_alone_is_nan(batches):
    """At the weights themselves all is well; a little further on the gradient is NaN."""
    model = trunk()
    weight = model.layers[0].weight
    here = weight.detach().clone()

    def loss():
        moved = bool((weight.detach() != here).any())
        return length_at_zero(model) if moved else loss_of(model, "a", *batch(1))

    losses = {"a": loss} if batches == 1 else {"a": loss, "b": loss}
    report = gradaccord.SAM(model, batches=batches).backward(losses)
    assert bool(torch.isnan(weight.grad).any())
    assert torch.isfinite(report.losses).all()
    assert not report.finite


def test_a_sum_that_overflows_half_precision_is_not_finite():
    """Each task's gradient is finite; what is in `.grad` is not."""
    weight = nn.Parameter(torch.ones(3, dtype=torch.float16))
    method = gradaccord.Sum([("weight", weight)])
    report = method.backward({name: lambda: (weight.float() * 60000).sum() for name in "ab"})
    assert bool(torch.isinf(weight.grad).any())
    assert not report.finite


@pytest.mark.parametrize("sparse", [False, True])
def test_nan_in_the_rows_of_an_embedding_is_seen(sparse):
    table = nn.Embedding(4096, 3, sparse=sparse)
    method = gradaccord.Sum(table, measure=False)
    rows = torch.tensor([5, 7])
    assert method.backward({"a": lambda: table(rows).sum()}).finite
    report = method.backward({"a": lambda: (table(rows) - table(rows).detach()).square().sum().sqrt()})
    assert bool(torch.isnan(table.weight.grad.to_dense()).any())
    assert not report.finite


def test_large_numbers_in_float64_are_finite():
    weight = nn.Parameter(torch.ones(3, dtype=torch.float64))
    method = gradaccord.Sum([("weight", weight)], measure=False)
    assert method.backward({"a": lambda: (weight * 1e200).sum()}).finite


# Models without values


def test_a_model_on_the_meta_device_is_refused_in_one_sentence():
    with torch.device("meta"):
        model = nn.Linear(3, 2)
    for make in (gradaccord.PCGrad, gradaccord.DotProd, gradaccord.SAM, gradaccord.FOMAML):
        with pytest.raises(
            ValueError, match="Parameter 'weight' is on the meta device and has no values"
        ):
            make(model)
