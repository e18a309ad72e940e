"""Meta-SGD equals plain autograd."""

from __future__ import annotations

import pytest
import torch
from few_shot_toys import (
    LR,
    K,
    Net,
    assert_gradients,
    batch,
    gradients_of,
    leaves,
    of_model,
    unrolled,
)

from gradaccord.meta import MetaSGD


@pytest.mark.parametrize("first_order", [False, True])
def test_meta_sgd_equals_autograd(first_order: bool) -> None:
    model, tasks = Net(), batch()
    learner = MetaSGD(model, inner_lr=LR, inner_steps=K, first_order=first_order)
    with torch.no_grad():  # rates that differ, one of them negative
        for name in learner.adapted:
            learner.rates[name].mul_(
                torch.linspace(-0.2, 1.5, learner.rates[name].numel()).view_as(learner.rates[name])
            )
    w = leaves(model)
    rates = {n: learner.rates[n].detach().clone().requires_grad_() for n in w}
    objective = unrolled(w, tasks, K, lambda n, k: rates[n], first_order=first_order)
    found = gradients_of(objective, w | {f"rate {n}": r for n, r in rates.items()})
    learner.backward(tasks)
    expected = of_model({n: found[n] for n in w})
    expected |= {f"rates.{n.replace('.', '/')}": found[f"rate {n}"] for n in w}
    assert_gradients(learner, expected)
