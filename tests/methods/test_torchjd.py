"""TorchJD's weightings on the gradient bank: rows, absent tasks, state."""

from __future__ import annotations

import pytest
import torch
from toy import Vectors, losses_of, trunk
from weighting_problems import rows

import gradaccord

torchjd = pytest.importorskip("torchjd.aggregation", reason="the oracle TorchJD is not installed")


WEIGHTINGS = {
    "UPGrad": lambda: torchjd.UPGrad(),
    "MGDA": lambda: torchjd.MGDA(),
    "CAGrad": lambda: torchjd.CAGrad(c=0.5),
    "Nash-MTL": lambda: torchjd.NashMTL(n_tasks=3),
    "AlignedMTL": lambda: torchjd.AlignedMTL(),
    "DualProj": lambda: torchjd.DualProj(),
    "IMTL-G": lambda: torchjd.IMTLG(),
    "FairGrad": lambda: torchjd.FairGrad(alpha=1.0),
    "Krum": lambda: torchjd.Krum(n_byzantine=0, n_selected=1),
    "Mean": lambda: torchjd.Mean(),
    "Constant": lambda: torchjd.Constant(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)),
    "PCD": lambda: torchjd.PCD(),
}


@pytest.mark.filterwarnings("ignore:.*not DPP:UserWarning")
@pytest.mark.parametrize("name", WEIGHTINGS)
def test_torchjd_adapter_equals_torchjds_own_aggregation(name):
    torch.manual_seed(3)
    rows = torch.randn(3, 7, dtype=torch.float64)
    model = Vectors(rows)
    gradaccord.TorchJD(model, WEIGHTINGS[name]()).backward(model.losses())
    expected = WEIGHTINGS[name]()(rows)
    torch.testing.assert_close(model.weight.grad, expected, rtol=2e-4, atol=1e-5)


def test_torchjd_adapter_leaves_the_global_generator_alone():
    model = Vectors(torch.randn(3, 7, dtype=torch.float64))
    before = torch.get_rng_state()
    gradaccord.TorchJD(model, torchjd.RandomWeighting()).backward(model.losses())
    assert torch.equal(torch.get_rng_state(), before)


NAMES = ("z", "a", "m")  # not in the order of the alphabet


PREFERENCE = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)


POSITIONAL = {
    "Constant": lambda: torchjd.Constant(PREFERENCE),
    "UPGrad": lambda: torchjd.UPGrad(pref_vector=PREFERENCE),
    "DualProj": lambda: torchjd.DualProj(pref_vector=PREFERENCE),
    "AlignedMTL": lambda: torchjd.AlignedMTL(pref_vector=PREFERENCE),
    "ConFIG": lambda: torchjd.ConFIG(pref_vector=PREFERENCE),
    "PCD": lambda: torchjd.PCD(tau=torch.tensor([0.9, 0.1], dtype=torch.float64)),
}


@pytest.mark.parametrize("name", POSITIONAL)
def test_torchjd_rows_are_the_tasks_in_the_users_order(name):
    model = Vectors(rows())
    method, own = gradaccord.TorchJD(model, POSITIONAL[name]()), POSITIONAL[name]()
    method.backward(model.losses(NAMES))
    torch.testing.assert_close(model.weight.grad, own(rows()), rtol=1e-9, atol=1e-9)
    # Another order in a later step changes nothing: that of the first stays.
    losses = model.losses(NAMES)
    report = method.backward({name: losses[name] for name in ("m", "z", "a")})
    torch.testing.assert_close(model.weight.grad, own(rows()), rtol=1e-9, atol=1e-9)
    assert report.tasks == ("m", "z", "a")


def test_torchjd_rows_are_the_tasks_as_declared():
    model = Vectors(rows())
    method = gradaccord.TorchJD(model, "Constant", weights=[1, 2, 5], tasks=("m", "z", "a"))
    method.backward(model.losses(NAMES))
    expected = torch.tensor([2.0, 5.0, 1.0], dtype=torch.float64) @ rows()
    torch.testing.assert_close(model.weight.grad, expected)
    with pytest.raises(
        ValueError, match="Task 'new' is not one of m, z, a, the tasks that the weighting"
    ):
        method.backward(model.losses(("z", "a", "new")))


def test_torchjd_order_of_tasks_is_saved():
    model = Vectors(rows())
    method, fresh = (gradaccord.TorchJD(model, torchjd.PCD()) for _ in range(2))
    method.backward(model.losses(NAMES))
    fresh.load_state_dict(method.state_dict())
    losses = model.losses(NAMES)
    report = fresh.backward({name: losses[name] for name in sorted(NAMES)})
    again = method.backward(losses)
    torch.testing.assert_close(report.weights[[2, 0, 1]], again.weights, rtol=0, atol=0)


@pytest.mark.parametrize("name", [name for name in POSITIONAL if name != "PCD"])
def test_torchjd_hands_out_the_sub_problem_of_the_tasks_that_are_there(name):
    """The absent task's row and preference are both left out; later all are back."""
    model = Vectors(rows())
    method = gradaccord.TorchJD(model, POSITIONAL[name](), tasks=NAMES)
    losses = model.losses(NAMES)
    for _ in range(2):
        method.backward({task: losses[task] for task in ("m", "z")})
        options = {"weights" if name == "Constant" else "pref_vector": PREFERENCE[[0, 2]]}
        expected = getattr(torchjd, name)(**options)(rows()[[0, 2]])
        torch.testing.assert_close(model.weight.grad, expected, rtol=1e-9, atol=1e-9)
    method.backward(losses)
    torch.testing.assert_close(model.weight.grad, POSITIONAL[name]()(rows()), rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore:.*not DPP:UserWarning")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torchjd.NashMTL(n_tasks=3),
        lambda: torchjd.CRMOGMWeighting(torchjd.UPGradWeighting()),
        lambda: torchjd.GradVac(),
        lambda: torchjd.PCD(),
    ],
    ids=["Nash-MTL", "CR-MOGM", "GradVac", "PCD"],
)
def test_torchjd_weighting_with_memory_asks_for_all_tasks(make):
    """It used to raise an obscure error, or to forget all, as it counts tasks."""
    model = Vectors(rows())
    method, twin = gradaccord.TorchJD(model, make()), gradaccord.TorchJD(model, make())
    losses = model.losses(NAMES)
    method.backward(losses)
    twin.backward(losses)
    before = model.weight.grad.clone()
    with pytest.raises(
        ValueError, match="Task 'a' is absent from this step, and the weighting .* remem"
    ):
        method.backward({task: losses[task] for task in ("m", "z")})
    with pytest.raises(ValueError, match="Task 'new' is not one of z, a, m, the tasks that"):
        method.backward(losses | {"new": losses["a"]})
    assert torch.equal(model.weight.grad, before)
    assert torch.equal(method.backward(losses).weights, twin.backward(losses).weights)


@pytest.mark.parametrize(
    "make",
    [lambda: torchjd.Constant(PREFERENCE), lambda: torchjd.NashMTL(n_tasks=3)],
    ids=["Constant", "Nash-MTL"],
)
def test_torchjd_weighting_made_for_another_number_of_tasks(make):
    model = Vectors(rows())
    losses = model.losses(NAMES)
    with pytest.raises(ValueError, match=r"is made for 3 tasks, and 2 are known \(m, z\): give it"):
        gradaccord.TorchJD(model, make()).backward({task: losses[task] for task in ("m", "z")})
    assert model.weight.grad is None


def test_torchjd_draws_reseed_no_accelerator(monkeypatch):
    """torch.manual_seed would: it must not be called at all."""
    model = trunk()
    method = gradaccord.TorchJD(model, "Random")
    seeds = []
    monkeypatch.setattr(torch, "manual_seed", seeds.append)
    before = torch.get_rng_state()
    weights = [method.backward(losses_of(model)).weights for _ in range(2)]
    assert not torch.equal(*weights)
    assert torch.equal(torch.get_rng_state(), before)
    assert seeds == []
