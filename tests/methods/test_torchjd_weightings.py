"""TorchJD's weightings by name, and those that cannot be used."""

from __future__ import annotations

import pytest
import torch
from toy import Vectors, losses_of, trunk
from weighting_problems import rows

import gradaccord
from gradaccord.methods.combine.torchjd_weightings import REFUSED

torchjd = pytest.importorskip("torchjd.aggregation", reason="the oracle TorchJD is not installed")


@pytest.mark.parametrize("name", ["GradDrop", "TrimmedMean", "ExcessMTL"])
def test_torchjd_adapter_refuses_what_is_no_weighting_of_tasks(name):
    kinds = {
        "GradDrop": lambda: torchjd.GradDrop(),
        "TrimmedMean": lambda: torchjd.TrimmedMean(trim_number=1),
        "ExcessMTL": lambda: torchjd.ExcessMTL(),
    }
    with pytest.raises(TypeError, match=f"{name}.*single coordinates"):
        gradaccord.TorchJD(trunk(), kinds[name]())


ARGUMENTS = {  # of the weightings that need some
    "CAGradWeighting": lambda: {"c": 0.5},
    "ConstantWeighting": lambda: {"weights": torch.ones(3)},
    "CRMOGMWeighting": lambda: {"weighting": torchjd.UPGradWeighting()},
    "FairGradWeighting": lambda: {"alpha": 1.0},
    "KrumWeighting": lambda: {"n_byzantine": 0, "n_selected": 1},
}


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in torchjd.__all__
        if n.endswith("Weighting") and n.removesuffix("Weighting") not in ("", *REFUSED)
    ],
)
@pytest.mark.parametrize("granularity", ["model", "layer"])
def test_every_weighting_of_torchjd_runs_and_resumes(name, granularity):
    def make():
        weighting = getattr(torchjd, name)(**ARGUMENTS.get(name, dict)())
        return gradaccord.TorchJD(model, weighting, granularity=granularity)

    model = trunk()
    method, fresh = make(), make()
    for seed in range(2):
        method.backward(losses_of(model, seed=seed))
    fresh.load_state_dict(method.state_dict())
    reports = [m.backward(losses_of(model, seed=2)) for m in (method, fresh)]
    assert torch.equal(reports[0].weights, reports[1].weights)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


NAMES = ("z", "a", "m")  # not in the order of the alphabet


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: torchjd.WeightedAggregator(torchjd.ExcessMTLWeighting()), "ExcessMTL.*coordinates"),
        (
            lambda: torchjd.CRMOGMWeighting(torchjd.ExcessMTLWeighting()),
            "ExcessMTL.*single coordinates",
        ),
        (lambda: torchjd.MoDoWeighting(), "MoDo, which needs .* two independent batches"),
        (lambda: torchjd.WeightedAggregator(torchjd.SDMGradWeighting()), "SDMGrad, which needs"),
        (lambda: "MoDo", "MoDo, which needs .* two independent batches"),
        (lambda: "TrimmedMean", "TrimmedMean.*single coordinates"),
    ],
)
def test_torchjd_refuses_what_does_not_follow_from_one_gram_matrix(make, reason):
    with pytest.raises(TypeError, match=reason):
        gradaccord.TorchJD(trunk(), make())


@pytest.mark.parametrize("kind", ["random", "small", "zero row", "equal rows", "opposed"])
@pytest.mark.parametrize("tasks", [1, 2, 4])
def test_config_equals_torchjds_own(kind, tasks):
    generator = torch.Generator().manual_seed(tasks)
    jacobian = torch.randn(tasks, 9, dtype=torch.float64, generator=generator)
    if kind == "small":
        jacobian *= 0.05  # all shorter than 1
    if kind == "zero row":
        jacobian[0] = 0
    if kind == "equal rows":
        jacobian[-1] = jacobian[0]
    if kind == "opposed" and tasks > 1:
        jacobian[-1] = -0.5 * jacobian[0] + 1e-3 * jacobian[-1]
    model = Vectors(jacobian)
    gradaccord.TorchJD(model, torchjd.ConFIG()).backward(model.losses())
    expected = torchjd.ConFIG()(jacobian)
    torch.testing.assert_close(model.weight.grad, expected, rtol=1e-8, atol=1e-10)


BY_NAME = {
    "UPGrad": {},
    "upgrad-weighting": {},
    "CAGrad": {"c": 0.5},
    "Nash-MTL": {"n_tasks": 3, "max_norm": 2.0},
    "Constant": {"weights": [1, 2, 5]},
    "Krum": {"n_byzantine": 0, "n_selected": 2},
    "FairGrad": {"alpha": 2.0},
    "AlignedMTL": {"pref_vector": [1.0, 2.0, 5.0], "scale_mode": "median"},
    "ConFIG": {"pref_vector": [1.0, 2.0, 5.0]},
    "PCD": {"tau": 0.3},
    "MGDA": {"max_iters": 7},
}


@pytest.mark.filterwarnings("ignore:.*not DPP:UserWarning")
@pytest.mark.parametrize("name", BY_NAME)
def test_torchjd_weighting_by_name_with_its_options(name):
    model = Vectors(rows())
    gradaccord.TorchJD(model, name, reduction="sum", **BY_NAME[name]).backward(model.losses(NAMES))
    options = {
        key: torch.tensor(value, dtype=torch.float64) if isinstance(value, list) else value
        for key, value in BY_NAME[name].items()
    }
    public = {"upgrad-weighting": "UPGrad", "Nash-MTL": "NashMTL"}.get(name, name)
    expected = getattr(torchjd, public)(**options)(rows())
    torch.testing.assert_close(model.weight.grad, expected, rtol=2e-4, atol=1e-5)


def test_torchjd_smoothing_by_name():
    model = Vectors(rows())
    method = gradaccord.TorchJD(model, "CRMOGM", inner="CAGrad", alpha=0.7, c=0.4)
    own = torchjd.GramianWeightedAggregator(
        torchjd.CRMOGMWeighting(torchjd.CAGradWeighting(c=0.4), alpha=0.7)
    )
    for scale in (1.0, 2.0):
        model.gradients = rows() * torch.tensor([[scale], [1.0], [1.0]], dtype=torch.float64)
        method.backward(model.losses(NAMES))
        torch.testing.assert_close(model.weight.grad, own(model.gradients), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "options", "error", "sentence"),
    [
        ("CAGrd", {"c": 1}, ValueError, "'CAGrd', which TorchJD does not have: did you mean 'CAGrad'"),
        ("xyz", {}, ValueError, "does not have: there are AlignedMTL, CAGrad, ConFIG, Constant"),
        ("CAGrad", {}, ValueError, "'CAGrad' needs the option `c`"),
        ("CAGrad", {"d": 1, "c": 1}, ValueError, "'CAGrad' has no option 'd': it takes c, norm_eps"),
        ("CAGrad", {"c": "high"}, ValueError, "'CAGrad': `c` is 'high': it must be a number"),
        ("CRMOGM", {}, ValueError, "'CRMOGM' needs the option `inner`"),
    ],
)
def test_torchjd_name_or_option_that_does_not_exist(name, options, error, sentence):
    with pytest.raises(error, match=sentence):
        gradaccord.TorchJD(trunk(), name, **options)


@pytest.mark.filterwarnings("ignore:.*not DPP:UserWarning")
def test_nash_weighting_without_its_aggregator_is_given_a_jacobian():
    """A Gram matrix taken for a Jacobian gave other weights in silence."""
    model = Vectors(rows())
    gradaccord.TorchJD(model, torchjd.NashMTL(n_tasks=3).weighting).backward(model.losses(NAMES))
    expected = torchjd.NashMTL(n_tasks=3)(rows())
    torch.testing.assert_close(model.weight.grad, expected, rtol=2e-4, atol=1e-5)
