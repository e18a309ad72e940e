"""Gradient sharing equals the paper's algorithm."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from few_shot_toys import (
    LR,
    K,
    NaiveSharing,
    Net,
    assert_gradients,
    batch,
    gradients_of,
    leaves,
    made,
    naive_mamlpp,
    of_model,
    perturb,
    same,
    train,
    unrolled,
)

from gradaccord.meta import MAML, MAMLPlusPlus, MetaSGD
from gradaccord.meta.learners.mamlpp import multi_step_weights


@pytest.mark.parametrize("first_order", [False, True])
@pytest.mark.parametrize("kind", [MAML, MetaSGD, MAMLPlusPlus])
def test_gradient_sharing_equals_algorithm_1(kind: Any, first_order: bool) -> None:
    learner = kind(Net(), inner_lr=LR, inner_steps=K, share=True, first_order=first_order)
    perturb(learner)
    naive = NaiveSharing(K)
    optimizer = torch.optim.Adam(learner.parameters(), lr=0.02)
    for iteration in range(4):
        tasks = batch(seed=iteration)
        with torch.no_grad():
            naive.m.copy_(learner.sharing.m)
            naive.lam.copy_(learner.sharing.lam)
        if kind is MAMLPlusPlus:
            weights = multi_step_weights(K, 0, 15)
            options = {"query_weights": weights, "first_order": first_order, "share": naive}
            expected = naive_mamlpp(learner, tasks, **options)
        else:
            w = leaves(learner.model)
            rates: dict[str, Any] = dict.fromkeys(w, LR)
            given = of_model(w) | {"sharing.m": naive.m, "sharing.lam": naive.lam}
            if kind is MetaSGD:
                rates = {n: learner.rates[n].detach().clone().requires_grad_() for n in w}
                given |= {f"rates.{n.replace('.', '/')}": r for n, r in rates.items()}
            objective = unrolled(
                w, tasks, K, lambda n, k, r=rates: r[n], share=naive, first_order=first_order
            )
            expected = gradients_of(objective, given)
        report = learner.backward(tasks)
        assert (expected["sharing.m"] is None) == (iteration == 0)  # there is no mean to weigh yet
        assert_gradients(learner, expected)
        for k in range(K):
            kept = torch.cat([learner.sharing.means[n][k].flatten() for n in learner.adapted])
            assert torch.allclose(kept, naive.means[k], rtol=0, atol=1e-12)
        assert report.sigma_lambda == pytest.approx(torch.sigmoid(naive.lam).tolist())
        optimizer.step()
        learner.after_step()
    assert learner.sharing.m.grad.norm() > 0


@pytest.mark.parametrize("kind", [MAML, MetaSGD, MAMLPlusPlus])
def test_lambda_of_minus_infinity_is_the_method_without_sharing(kind: Any) -> None:
    plain = kind(Net(), inner_lr=LR, inner_steps=K)
    shared = kind(Net(), inner_lr=LR, inner_steps=K, share=True)
    for iteration in range(3):
        with torch.no_grad():
            shared.sharing.lam.fill_(-torch.inf)
        tasks = batch(seed=iteration)
        plain.backward(tasks)
        shared.backward(tasks)
        named = dict(shared.named_parameters())
        for name, parameter in plain.named_parameters():
            if parameter.grad is None:
                assert named[name].grad is None
            else:
                assert torch.allclose(named[name].grad, parameter.grad, rtol=1e-13, atol=1e-15)
        assert torch.equal(shared.logits_by_step(tasks[0]), plain.logits_by_step(tasks[0]))


def test_a_step_that_is_not_finite_leaves_running_means_alone() -> None:
    learner, optimizer = made("MAML shared")
    train(learner, optimizer, range(2))
    before = copy.deepcopy(learner.state_dict())
    tasks = batch()
    tasks.query[0, 0] = torch.nan
    report = learner.backward(tasks)
    assert not report.finite
    assert not learner.model.conv.weight.grad.isfinite().all()  # which a scaler or a guard can see
    assert same(before, learner.state_dict())
    assert learner.backward(batch()).finite
