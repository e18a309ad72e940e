"""Batch norm by inner step."""

from __future__ import annotations

import torch
from few_shot_toys import Net, batch, leaves, made, train
from torch import nn
from torch.nn import functional as F

from gradaccord.meta import MAMLPlusPlus


def test_running_statistics_by_step_normalise_queries_at_test() -> None:
    learner, optimizer = made("MAML++ running")
    train(learner, optimizer, range(4))
    means = learner.norms.statistics["norm.running_mean"]
    assert means.shape == (3, 4)
    assert not torch.equal(means[0], means[2])
    task = batch(seed=8)[0]
    weights = learner.adapt(task.support, task.support_labels)
    assert torch.equal(weights["norm.running_mean"], means[2])
    x = F.conv2d(task.query, weights["conv.weight"], weights["conv.bias"], padding=1)
    x = F.batch_norm(
        x,
        weights["norm.running_mean"],
        weights["norm.running_var"],
        weights["norm.weight"],
        weights["norm.bias"],
    )
    expected = F.linear(torch.tanh(x).flatten(1), weights["head.weight"], weights["head.bias"])
    assert torch.allclose(learner.logits(task), expected, rtol=0, atol=1e-12)


def test_running_statistics_are_the_mean_over_tasks_of_batch_norms_own() -> None:
    learner = MAMLPlusPlus(Net(), inner_steps=1, statistics="running", share=True)
    tasks = batch(tasks=2)
    expected = []
    for task in tasks:
        norm = nn.BatchNorm2d(4).double()
        adapted = learner.adapt(task.support, task.support_labels)
        for weights, images in ((leaves(learner.model), task.support), (adapted, task.query)):
            norm(F.conv2d(images, weights["conv.weight"], weights["conv.bias"], padding=1))
        expected.append(norm.running_var)
    # Before the first update there is no mean to share, so the adapted weights differ at step 1.
    alone = MAMLPlusPlus(Net(), inner_steps=1, statistics="running")
    alone.backward(tasks)
    found = alone.norms.statistics["norm.running_var"][0]
    assert torch.allclose(found, torch.stack(expected).mean(0), rtol=1e-12, atol=0)
