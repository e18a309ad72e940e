"""The gradient of a weighted sum: one pass or many, and what a mistake leaves behind."""

from __future__ import annotations

import pytest
import torch
from toy import assert_grads_close, autograd_of, grads, losses_of, trunk
from weigh_problems import shared_losses

from gradaccord.core.weighted_gradient import WeightedGradient

WEIGHTS = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64)


def weigh(tasks, losses):
    assert tasks == ["a", "b", "c"]
    return WEIGHTS


def test_own_batches_and_one_batch_give_the_gradient_of_the_weighted_sum():
    model = trunk()
    own = losses_of(model, "cab")
    found = WeightedGradient(model).fill(own, weigh)
    assert found.order == ["c", "a", "b"]
    total = sum(w * own[task]() for w, task in zip(WEIGHTS, "abc", strict=True))
    assert_grads_close(grads(model), autograd_of(model, total))
    model.zero_grad()
    shared = shared_losses(model, 0)
    for given in (shared, [shared]):
        found = WeightedGradient(model).fill(given, weigh)
        total = sum(w * shared()[task] for w, task in zip(WEIGHTS, "abc", strict=True))
        assert_grads_close(grads(model), autograd_of(model, total))
        torch.testing.assert_close(found.losses, torch.stack([v.detach() for v in shared().values()]))
        model.zero_grad()


def test_sparse_embeddings_stay_sparse():
    model = trunk(sparse=True)
    WeightedGradient(model).fill(shared_losses(model, 0), weigh)
    assert model.words.weight.grad.is_sparse
    total = sum(w * v for w, v in zip(WEIGHTS, shared_losses(model, 0)().values(), strict=True))
    assert_grads_close(grads(model), autograd_of(model, total))


def test_a_batch_that_reaches_no_parameter_is_refused():
    other = torch.ones((), requires_grad=True)
    losses = lambda: dict.fromkeys("abc", other * 2)  # noqa: E731
    with pytest.raises(ValueError, match="'a, b, c' has a loss that reaches none"):
        WeightedGradient(trunk()).fill(losses, weigh)


def test_an_error_of_the_users_own_is_raised_as_it_is():
    with pytest.raises(ZeroDivisionError):
        WeightedGradient(trunk()).fill(lambda: 1 / 0, weigh)
    with pytest.raises(TypeError, match="`losses` must map task names"):
        WeightedGradient(trunk()).fill(3, weigh)
