"""Divergences between outputs, for every kind of task."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F

from gradaccord.methods.regularize.divergence import divergence, read_outputs, symmetric_kl

pytestmark = pytest.mark.usefixtures("one_thread")


def test_divergences_are_what_they_say():
    a, b = torch.randn(5, 4, dtype=torch.float64), torch.randn(5, 4, dtype=torch.float64)
    p, q = a.log_softmax(-1), b.log_softmax(-1)
    both = F.kl_div(q, p, log_target=True, reduction="batchmean")
    both = both + F.kl_div(p, q, log_target=True, reduction="batchmean")
    torch.testing.assert_close(divergence("classification", (a,), (b,)), both)
    torch.testing.assert_close(divergence("regression", (a,), (b,)), F.mse_loss(a, b))
    two = torch.stack([torch.zeros(5), a[:, 0]], -1), torch.stack([torch.zeros(5), b[:, 0]], -1)
    torch.testing.assert_close(
        divergence("binary", (a[:, 0],), (b[:, 0],)), divergence("classification", two[:1], two[1:])
    )
    counted = torch.tensor([[1, 1, 0, 0]] * 5, dtype=torch.bool)
    span = divergence("span", (a, b), (b, a), counted)
    torch.testing.assert_close(span, 2 * symmetric_kl(a[:, :2], b[:, :2]).mean())
    c, d = torch.randn(2, 5, 4, 3), torch.randn(2, 5, 4, 3)
    tokens = divergence("tokens", (c[0],), (d[0],), counted)
    torch.testing.assert_close(tokens, symmetric_kl(c[0, :, :2], d[0, :, :2]).mean())
    assert divergence("tokens", (c[0],), (d[0],), torch.zeros(5, 4)) == 0


def test_symmetric_kl_of_one_hot_outputs_has_finite_gradients():
    a = torch.tensor([[200.0, -200.0]], requires_grad=True)
    symmetric_kl(a, -a).sum().backward()
    assert torch.isfinite(a.grad).all()


def test_outputs_are_read_off_tensors_mappings_objects_and_pairs():
    a, b = torch.randn(2, 5, 4)
    both = {"start_logits": a, "end_logits": b}
    for given in (a, {"logits": a}, SimpleNamespace(logits=a)):
        assert read_outputs("classification", given) == (a,)
    for given in (both, SimpleNamespace(**both), (a, b)):
        assert read_outputs("span", given) == (a, b)
    with pytest.raises(TypeError, match="kind='span' compares a pair"):
        read_outputs("span", {"logits": a})
    with pytest.raises(TypeError, match="compares a tensor of outputs, or an object with logits;"):
        read_outputs("classification", (a, b))
