"""The weights of PCGrad, GradVac and GradNorm: against TorchJD, and by their properties."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import Trunk, Vectors, losses_of, trunk

import gradaccord
from gradaccord.methods.combine.combination import projection_order
from gradaccord.methods.combine.gradvac import gradvac_weights
from gradaccord.methods.combine.pcgrad import pcgrad_weights
from gradaccord.methods.combine.weightings import REFUSED

torchjd = pytest.importorskip("torchjd.aggregation", reason="the oracle TorchJD is not installed")


def jacobian(n_tasks: int, seed: int, kind: str) -> torch.Tensor:
    torch.manual_seed(seed)
    rows = torch.randn(n_tasks, 5, dtype=torch.float64)
    if kind == "zero row":
        rows[seed % n_tasks] = 0
    elif kind == "all zero":
        rows.zero_()
    elif kind == "opposite":
        rows[1:] = -rows[:1]
    elif kind == "rank one":
        rows = rows[:, :1] @ rows[:1]
    elif kind == "scales":
        rows *= torch.logspace(-6, 6, n_tasks, dtype=torch.float64)[:, None]
    return rows


KINDS = ["random", "zero row", "all zero", "opposite", "rank one", "scales"]
cases = st.tuples(st.integers(1, 7), st.integers(0, 10_000), st.sampled_from(KINDS))


def in_order(order: torch.Tensor, n_tasks: int, others_only: bool):
    """Make TorchJD's calls of randperm follow `order`, whichever way it uses them."""
    calls = iter(range(n_tasks))

    def randperm(n: int) -> torch.Tensor:
        i = next(calls)
        chosen = order[i].tolist()
        if others_only:  # indices into the list of tasks without i
            return torch.tensor([j - (j > i) for j in chosen], dtype=torch.long)
        return torch.tensor([*chosen, i], dtype=torch.long)

    return patch("torch.randperm", randperm)


@given(cases)
@settings(max_examples=80, deadline=None)
def test_pcgrad_weights_equal_torchjds(case):
    n_tasks, seed, kind = case
    rows = jacobian(n_tasks, seed, kind)
    gram = rows @ rows.T
    order = projection_order(n_tasks, torch.Generator().manual_seed(seed))
    with in_order(order, n_tasks, others_only=False):
        expected = torchjd.PCGradWeighting()(gram)
    torch.testing.assert_close(pcgrad_weights(gram, order), expected, rtol=1e-9, atol=1e-9)


@given(cases)
@settings(max_examples=80, deadline=None)
def test_gradvac_weights_equal_torchjds_over_several_steps(case):
    n_tasks, seed, kind = case
    oracle = torchjd.GradVacWeighting(beta=0.3, eps=0.0 if kind in ("random", "scales") else 1e-12)
    targets = torch.zeros(n_tasks, n_tasks, dtype=torch.float64)
    for step in range(4):
        # Later steps are well-posed: with a zero gradient and a positive target TorchJD divides by eps.
        rows = jacobian(n_tasks, seed + step, kind if step == 0 else "random")
        if kind == "scales":
            rows = jacobian(n_tasks, seed + step, kind)
        gram = rows @ rows.T
        order = projection_order(n_tasks, torch.Generator().manual_seed(seed + step))
        if n_tasks > 1 and kind not in ("random", "scales") and step:
            oracle._phi_t, oracle._state_key = targets.clone(), (n_tasks, torch.float64)
        with in_order(order, n_tasks, others_only=True):
            expected = oracle(gram)
        weights, targets = gradvac_weights(gram, targets, order, beta=0.3)
        torch.testing.assert_close(weights, expected, rtol=1e-6, atol=1e-6)


@given(cases)
@settings(max_examples=50, deadline=None)
def test_gradvac_with_targets_zero_is_pcgrad(case):
    n_tasks, seed, kind = case
    rows = jacobian(n_tasks, seed, kind)
    gram = rows @ rows.T
    order = projection_order(n_tasks, torch.Generator().manual_seed(seed))
    zero = torch.zeros_like(gram)
    weights, targets = gradvac_weights(gram, zero, order, beta=0.0)
    # Compared as gradients: a zero row may carry any weight.
    torch.testing.assert_close(weights @ rows, pcgrad_weights(gram, order) @ rows, rtol=1e-7, atol=1e-7)
    assert torch.equal(targets, zero)


@given(st.integers(0, 10_000), st.floats(-0.9, 0.95))
@settings(max_examples=50, deadline=None)
def test_gradvac_reaches_its_target_cosine_exactly(seed, target):
    rows = jacobian(2, seed, "random")
    gram = rows @ rows.T
    targets = torch.full((2, 2), target, dtype=torch.float64)
    order = torch.tensor([[1], [0]])
    cosine = gram[0, 1] / (gram[0, 0] * gram[1, 1]).sqrt()
    weights, _ = gradvac_weights(gram, targets, order, beta=0.01)
    if cosine >= target:
        torch.testing.assert_close(weights, torch.ones(2, dtype=torch.float64))
        return
    moved = rows[0] + (weights[1] - 1) * rows[1]  # by symmetry each gradient takes from the other alone
    reached = torch.nn.functional.cosine_similarity(moved, rows[1], dim=0)
    assert abs(float(reached) - target) < 1e-9


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
        gradaccord.GradNorm,
        lambda m: gradaccord.TorchJD(m, torchjd.UPGradWeighting()),
    ],
    ids=["Sum", "Mean", "PCGrad", "GradVac", "GradNorm", "TorchJD"],
)
def test_one_task_is_the_plain_gradient(make):
    model = trunk()
    only = {"b": losses_of(model)["b"]}
    report = make(model).backward(only)
    found = {name: p.grad for name, p in model.named_parameters()}
    model.zero_grad()
    only["b"]().backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            assert found[name] is None
        else:
            torch.testing.assert_close(found[name], parameter.grad, rtol=1e-12, atol=1e-14)
    assert report.tasks == ("b",)
    assert report.norms[0] > 0


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


def test_every_order_of_projection_is_equally_likely():
    generator = torch.Generator().manual_seed(0)
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(6000):
        order = projection_order(4, generator)
        for i, row in enumerate(order.tolist()):
            assert sorted(row) == [j for j in range(4) if j != i]
        seen[tuple(order[0].tolist())] = seen.get(tuple(order[0].tolist()), 0) + 1
    assert len(seen) == 6
    assert all(850 < count < 1150 for count in seen.values())  # 1000 +- 5 standard deviations


@given(st.integers(0, 10_000), st.floats(0.01, 100))
@settings(max_examples=50, deadline=None)
def test_scaling_a_tasks_loss_scales_its_projected_gradient_alone(seed, scale):
    """PCGrad projects on directions: g_i' scales with L_i, the other g_j' do not move."""
    rows = jacobian(4, seed, "random")
    order = projection_order(4, torch.Generator().manual_seed(seed))
    scaled = rows.clone()
    scaled[2] *= scale

    def result(gradients: torch.Tensor) -> torch.Tensor:
        return pcgrad_weights(gradients @ gradients.T, order) @ gradients

    def projected_alone() -> torch.Tensor:
        projected = rows[2].clone()
        for j in order[2].tolist():
            dot = projected @ rows[j]
            if dot < 0:
                projected = projected - dot / (rows[j] @ rows[j]) * rows[j]
        return projected

    expected = result(rows) + (scale - 1) * projected_alone()
    torch.testing.assert_close(result(scaled), expected, rtol=1e-8, atol=1e-8)


def test_gradnorm_follows_its_formula():
    model = trunk()
    method = gradaccord.GradNorm(model, alpha=1.5, lr=0.1)
    weights = dict.fromkeys("abc", 1.0)
    first: dict[str, float] = {}
    for step in range(4):
        losses = losses_of(model, seed=step)
        lengths, values = {}, {}
        for task, loss in losses.items():
            value = loss()
            gradient = torch.autograd.grad(value, list(model.layers[1].parameters()))
            lengths[task] = float(torch.cat([g.flatten() for g in gradient]).norm())
            values[task] = value.item()
            first.setdefault(task, value.item())
        report = method.backward(losses)
        for i, task in enumerate("abc"):
            assert abs(float(report.weights[i]) - weights[task]) < 1e-9
            torch.testing.assert_close(
                model.heads[task].bias.grad,
                weights[task] * torch.autograd.grad(losses[task](), model.heads[task].bias)[0],
            )
        norms = {t: weights[t] * lengths[t] for t in "abc"}
        mean_norm = sum(norms.values()) / 3
        progress = {t: values[t] / first[t] for t in "abc"}
        mean_progress = sum(progress.values()) / 3
        for t in "abc":
            target = mean_norm * (progress[t] / mean_progress) ** 1.5
            sign = (norms[t] > target) - (norms[t] < target)
            weights[t] = max(weights[t] - 0.1 * sign * lengths[t], 1e-3)
        total = sum(weights.values())
        weights = {t: 3 * w / total for t, w in weights.items()}


def test_gradnorm_weights_change_and_sum_to_the_number_of_tasks():
    model = Trunk(tasks=("a", "b", "c"))
    method = gradaccord.GradNorm(model, lr=0.5)
    for step in range(5):
        method.backward(losses_of(model, seed=step))
    assert sum(method.weights.values()) == pytest.approx(3)
    assert max(method.weights.values()) - min(method.weights.values()) > 1e-3


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
