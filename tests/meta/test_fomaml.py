"""FOMAML: the query gradient at the adapted weights."""

from __future__ import annotations

import torch
from few_shot_toys import (
    LR,
    K,
    Net,
    assert_gradients,
    batch,
    gradients_of,
    loss,
    of_model,
)

from gradaccord.meta import FOMAML, MAML


def test_the_orders_differ() -> None:
    found = []
    for kind in (MAML, FOMAML):
        learner = kind(Net(), inner_lr=LR, inner_steps=K)
        learner.backward(batch())
        found.append(learner.model.conv.weight.grad)
    assert (found[0] - found[1]).norm() > 0.05 * found[0].norm()


def test_fomaml_is_the_query_gradient_at_the_adapted_weights() -> None:
    tasks = batch()
    learner = FOMAML(Net(), inner_lr=LR, inner_steps=K)
    expected: dict[str, torch.Tensor] = {}
    for task in tasks:
        adapted = {
            name: tensor.detach().requires_grad_()
            for name, tensor in learner.adapt(task.support, task.support_labels).items()
        }
        w = {name: adapted[name] for name, _ in learner.model.named_parameters()}
        for name, gradient in gradients_of(loss(w, task.query, task.query_labels), w).items():
            expected[name] = expected.get(name, 0) + gradient / len(tasks)
    learner.backward(tasks)
    assert_gradients(learner, of_model(expected))
