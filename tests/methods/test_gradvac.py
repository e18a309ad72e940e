"""GradVac: against TorchJD, its targets and their state."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from toy import (
    Vectors,
    losses_of,
    trunk,
)
from weighting_problems import in_order, jacobian

import gradaccord
from gradaccord.methods.combine.combination import projection_order
from gradaccord.methods.combine.gradvac import gradvac_weights
from gradaccord.methods.combine.pcgrad import pcgrad_weights

torchjd = pytest.importorskip("torchjd.aggregation", reason="the oracle TorchJD is not installed")


KINDS = ["random", "zero row", "all zero", "opposite", "rank one", "scales"]


cases = st.tuples(st.integers(1, 7), st.integers(0, 10_000), st.sampled_from(KINDS))


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


def test_05_moving_average_only_when_the_condition_fires_or_with_beta_one_half():
    model = Vectors(torch.tensor([[1.0, 0.2], [1.0, -0.1]], dtype=torch.float64))  # they agree
    method = gradaccord.GradVac(model)
    report = method.backward(model.losses())
    assert torch.equal(report.weights, torch.ones(2, dtype=torch.float64))  # the condition did not fire
    cosine = float(report.cosines[0, 1])
    assert method.targets[0, 0, 1].item() == pytest.approx(0.01 * cosine)
    assert method.targets[0, 1, 0].item() == pytest.approx(0.01 * cosine)
