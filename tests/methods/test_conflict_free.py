"""ConFIG from the Gram matrix: what the gradients themselves give."""

from __future__ import annotations

import pytest
import torch
from toy import Vectors, losses_of, trunk

import gradaccord


def by_definition(rows):
    """The method on the gradients themselves, with no Gram matrix."""
    units = rows / rows.norm(dim=1, keepdim=True)
    d = torch.linalg.pinv(units) @ torch.ones(len(rows), dtype=rows.dtype)
    d = d / d.norm()
    return (rows @ d).sum() * d


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_definition_on_whole_gradients(seed):
    torch.manual_seed(seed)
    rows = (
        torch.randn(4, 9, dtype=torch.float64) * torch.tensor([[1.0], [50.0], [0.01], [3.0]]).double()
    )
    rows[1] -= 40 * rows[0]  # a conflict
    model = Vectors(rows)
    gradaccord.ConFIG(model).backward(model.losses())
    torch.testing.assert_close(model.weight.grad, by_definition(rows), rtol=1e-9, atol=1e-11)
    cosines = rows @ model.weight.grad / rows.norm(dim=1) / model.weight.grad.norm()
    torch.testing.assert_close(cosines, cosines[:1].expand(4), rtol=1e-8, atol=0)
    assert float(cosines[0]) > 0


def test_thirty_steps_equal_the_definition():
    model, reference = trunk(), trunk()
    method = gradaccord.ConFIG(model)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, reference)]
    shared = [*reference.words.parameters(), *reference.layers.parameters()]
    for step in range(30):
        method.backward(losses_of(model, seed=step))
        optimizers[0].step()
        optimizers[1].zero_grad()
        losses = [loss() for loss in losses_of(reference, seed=step).values()]
        grads = [torch.autograd.grad(loss, shared, retain_graph=True) for loss in losses]
        sum(losses).backward()  # for the heads
        found = by_definition(torch.stack([torch.cat([g.flatten() for g in own]) for own in grads]))
        for parameter, part in zip(shared, found.split([p.numel() for p in shared]), strict=True):
            parameter.grad = part.view_as(parameter)
        optimizers[1].step()
    for one, other in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_it_agrees_with_torchjd():
    torchjd = pytest.importorskip("torchjd.aggregation", reason="TorchJD is not installed")
    torch.manual_seed(0)
    rows = torch.randn(3, 7, dtype=torch.float64)
    model = Vectors(rows)
    gradaccord.ConFIG(model).backward(model.losses())
    torch.testing.assert_close(model.weight.grad, torchjd.ConFIG()(rows), rtol=1e-9, atol=1e-10)


def test_a_task_without_gradient_takes_no_part():
    rows = torch.randn(3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    rows[1] = 0
    model = Vectors(rows)
    report = gradaccord.ConFIG(model).backward(model.losses())
    torch.testing.assert_close(model.weight.grad, by_definition(rows[[0, 2]]), rtol=1e-9, atol=1e-11)
    assert float(report.weights[1]) == 0


def test_gradients_that_cancel_leave_nothing():
    rows = torch.tensor([[1.0, 2.0], [-1.0, -2.0]], dtype=torch.float64)
    model = Vectors(rows)
    gradaccord.ConFIG(model).backward(model.losses())
    torch.testing.assert_close(model.weight.grad, torch.zeros(2).double(), rtol=0, atol=1e-12)
