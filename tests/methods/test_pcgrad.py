"""PCGrad: against TorchJD and a naive loop, and by its properties."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import (
    Vectors,
)
from weighting_problems import in_order, jacobian

import gradaccord
from gradaccord.methods.combine.combination import projection_order
from gradaccord.methods.combine.pcgrad import pcgrad_weights

torchjd = pytest.importorskip("torchjd.aggregation", reason="the oracle TorchJD is not installed")


KINDS = ["random", "zero row", "all zero", "opposite", "rank one", "scales"]


cases = st.tuples(st.integers(1, 7), st.integers(0, 10_000), st.sampled_from(KINDS))


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


def naive_pcgrad(rows: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    total = torch.zeros_like(rows[0])
    for i, others in enumerate(order.tolist()):
        projected = rows[i].clone()
        for j in others:
            dot = projected @ rows[j]
            if dot < 0:
                projected -= dot / (rows[j] @ rows[j]) * rows[j]
        total += projected
    return total


def test_08_projecting_on_itself_or_on_projected_gradients_or_giving_the_mean():
    from gradaccord.methods.combine.combination import projection_order

    torch.manual_seed(1)
    rows = torch.randn(5, 4, dtype=torch.float64)
    for reduction, divisor in (("sum", 1), ("mean", 5)):
        model = Vectors(rows)
        order = projection_order(5, torch.Generator().manual_seed(7))
        gradaccord.PCGrad(model, seed=7, reduction=reduction).backward(model.losses())
        torch.testing.assert_close(model.weight.grad, naive_pcgrad(rows, order) / divisor)
    order = projection_order(6, torch.Generator().manual_seed(0))
    assert all(i not in row for i, row in enumerate(order.tolist()))
