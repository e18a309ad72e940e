"""Edges of the methods that weigh task gradients: which layer, which row is whose, and who is away."""

from functools import partial

import pytest
import torch
from torch import nn
from toy import Vectors, losses_of, trunk

import gradaccord

torchjd = pytest.importorskip("torchjd.aggregation", reason="TorchJD is not installed")


class FourHeads(nn.Module):
    """Two layers that all tasks reach, then one that `a` and `b` alone do; `alone` reaches a head."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 6)
        self.second = nn.Linear(6, 6)
        self.branch = nn.Linear(6, 6)
        self.heads = nn.ModuleDict({task: nn.Linear(6, 1) for task in ("a", "b", "c", "d", "alone")})

    def loss(self, task, seed):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(8, 5, dtype=torch.float64, generator=generator)
        hidden = torch.tanh(self.second(torch.tanh(self.first(x))))
        if task in ("a", "b"):
            hidden = torch.tanh(self.branch(hidden))
        if task == "alone":
            hidden = hidden.detach()
        return ((self.heads[task](hidden) - 1) ** 2).mean()


def four_heads():
    torch.manual_seed(0)
    return FourHeads().double()


def test_gradnorm_compares_norms_in_the_last_layer_that_all_tasks_reach():
    """Against the formula on `second`; on `branch`, the last that two tasks reach, weights collapse."""
    model = four_heads()
    method = gradaccord.GradNorm(model, lr=0.1, alpha=1.5)
    weights, first = dict.fromkeys("abcd", 1.0), {}
    for step in range(6):
        losses = {t: partial(model.loss, t, 10 * step + i) for i, t in enumerate("abcd")}
        values, lengths = {}, {}
        for t, loss in losses.items():
            value = loss()
            gradient = torch.autograd.grad(value, list(model.second.parameters()))
            lengths[t] = float(torch.cat([g.flatten() for g in gradient]).norm())
            values[t] = value.item()
            first.setdefault(t, values[t])
        report = method.backward(losses)
        expected = torch.tensor([weights[t] for t in "abcd"], dtype=torch.float64)
        torch.testing.assert_close(report.weights, expected, rtol=1e-10, atol=1e-12)
        mean_norm = sum(weights[t] * lengths[t] for t in "abcd") / 4
        progress = {t: values[t] / first[t] for t in "abcd"}
        for t in "abcd":
            target = mean_norm * (progress[t] * 4 / sum(progress.values())) ** 1.5
            apart = weights[t] * lengths[t] - target
            weights[t] = max(weights[t] - 0.1 * ((apart > 0) - (apart < 0)) * lengths[t], 1e-3)
        weights = {t: 4 * w / sum(weights.values()) for t, w in weights.items()}


def test_gradnorm_asks_for_a_layer_where_none_is_reached_by_all_tasks():
    model = four_heads()
    losses = {t: partial(model.loss, t, i) for i, t in enumerate(("a", "c", "alone"))}
    with pytest.raises(ValueError, match=r"No layer is reached by all .* a, alone, c: give `layer`"):
        gradaccord.GradNorm(model).backward(losses)
    with pytest.raises(ValueError, match=r"`layer` is 'second', which the tasks a, alone, c do not"):
        gradaccord.GradNorm(model, layer="second").backward(losses)
    assert all(p.grad is None for p in model.parameters())


def test_gradnorm_leaves_a_task_without_gradient_out_of_the_means():
    """As if it were absent."""
    models = four_heads(), four_heads()
    methods = [gradaccord.GradNorm(model, lr=0.1) for model in models]
    for step in range(3):
        for method, model in zip(methods, models, strict=True):
            losses = {t: partial(model.loss, t, 10 * step + i) for i, t in enumerate("abc")}
            if step > 0 and model is models[0]:
                losses["c"] = lambda: 0 * models[0].loss("c", 0) + 1
            elif step > 0:
                del losses["c"]
            method.backward(losses)
    assert methods[0].weights == pytest.approx(methods[1].weights, rel=1e-12)


# TorchJD: rows and tasks

NAMES = ("z", "a", "m")  # not in the order of the alphabet


def rows(seed=3):
    return torch.randn(3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


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


# TorchJD: which weightings


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


@pytest.mark.parametrize("kind", ["random", "zero row", "equal rows", "opposed"])
@pytest.mark.parametrize("tasks", [1, 2, 4])
def test_config_equals_torchjds_own(kind, tasks):
    generator = torch.Generator().manual_seed(tasks)
    jacobian = torch.randn(tasks, 9, dtype=torch.float64, generator=generator)
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
        ("CAGrad", {}, TypeError, "'CAGrad' needs the option `c`"),
        ("CAGrad", {"d": 1, "c": 1}, TypeError, "'CAGrad' has no option 'd': it has c, norm_eps"),
        ("CAGrad", {"c": "high"}, ValueError, "'CAGrad' cannot be made of c='high'"),
        ("CRMOGM", {}, TypeError, "'CRMOGM' needs the option `inner`"),
    ],
)
def test_torchjd_name_or_option_that_does_not_exist(name, options, error, sentence):
    with pytest.raises(error, match=sentence):
        gradaccord.TorchJD(trunk(), name, **options)


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


@pytest.mark.filterwarnings("ignore:.*not DPP:UserWarning")
def test_nash_weighting_without_its_aggregator_is_given_a_jacobian():
    """A Gram matrix taken for a Jacobian gave other weights in silence."""
    model = Vectors(rows())
    gradaccord.TorchJD(model, torchjd.NashMTL(n_tasks=3).weighting).backward(model.losses(NAMES))
    expected = torchjd.NashMTL(n_tasks=3)(rows())
    torch.testing.assert_close(model.weight.grad, expected, rtol=2e-4, atol=1e-5)


# GradVac


def test_gradvac_state_moves_between_a_wrapped_and_a_bare_model():
    model = trunk()
    bare = gradaccord.GradVac(model, granularity="layer", beta=0.3)
    wrapped = gradaccord.GradVac(nn.DataParallel(model), granularity="layer", beta=0.3)
    bare.backward(losses_of(model))
    wrapped.load_state_dict(bare.state_dict())
    assert torch.equal(wrapped.targets, bare.targets)
    reports = [method.backward(losses_of(model, seed=1)) for method in (bare, wrapped)]
    assert torch.equal(reports[0].weights, reports[1].weights)


def test_gradvac_state_of_other_groups_names_them():
    model = trunk()
    saved = gradaccord.GradVac(model, granularity={"x": ["words"], "y": ["layers", "heads"]})
    other = gradaccord.GradVac(model, granularity={"x": ["words"], "z": ["layers", "heads"]})
    with pytest.raises(
        ValueError, match=r"for 2 groups .* has 2 \(the first to differ: 'y' there, 'z'"
    ):
        other.load_state_dict(saved.state_dict())
