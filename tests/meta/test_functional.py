"""Predictions for queries, and the network that is used."""

from __future__ import annotations

import torch
from few_shot_toys import Net, batch, leaves, loss, made, train
from torch import nn
from torch.nn import functional as F

from gradaccord.meta import MAML, Task


def test_a_query_is_predicted_with_the_support_set_alone_beside_it() -> None:
    learner, optimizer = made("MAML")
    train(learner, optimizer, range(2))
    task = batch(seed=8)[0]
    weights = learner.adapt(task.support, task.support_labels)
    learner.model.train()
    for place in range(len(task.query)):
        images = torch.cat([task.support, task.query[place : place + 1]])
        expected = torch.func.functional_call(learner.model, weights, (images,))[-1]
        assert torch.allclose(learner.logits(task)[place], expected, rtol=0, atol=1e-12)


def test_a_last_layer_of_zeros_does_not_hide_batch_statistics() -> None:
    model = Net()
    nn.init.zeros_(model.head.weight)
    nn.init.zeros_(model.head.bias)
    learner = MAML(model)
    task = batch(seed=8)[0]
    found = learner.logits_by_step(task)
    alone = Task(task.support, task.support_labels, task.query[:1], task.query_labels[:1])
    assert torch.allclose(learner.logits_by_step(alone)[:, 0], found[:, 0], rtol=0, atol=1e-12)
    assert not found[0].any()


def test_the_hand_written_loss_is_the_learners() -> None:
    learner = MAML(Net())
    task = batch()[0]
    value = loss(leaves(learner.model), task.support, task.support_labels).detach()
    outputs = learner.network(dict(learner.model.named_parameters()), task.support)
    assert torch.allclose(F.cross_entropy(outputs, task.support_labels).detach(), value)
