"""Conflict against noise: unbiased where mean gradients are not, and rarely a false alarm."""

from functools import partial

import pytest
import torch
from torch import nn

from gradaccord.probe.conflict import GradientSample, conflict

torch_double = {"dtype": torch.float64}


def gram_of(draw, means, batches, noise):
    """Batches of tasks with these mean gradients, each with noise of its own."""
    tasks, size = means.shape
    spread = noise * torch.randn(tasks, batches, size, generator=draw, **torch_double)
    vectors = (means[:, None] + spread).flatten(0, 1)
    rows = {f"task {i}": range(i * batches, (i + 1) * batches) for i in range(tasks)}
    return vectors @ vectors.T, rows


def measured(gram, rows):
    return conflict(gram, rows, dict.fromkeys(rows, 1.0), trained=10, shared=5)


@pytest.fixture
def draw():
    return torch.Generator().manual_seed(0)


def test_the_cosine_is_that_of_the_gradients_under_the_noise(draw):
    """Between means of 8 batches noise shortens it by a third; over 300 draws ours is not."""
    means = torch.zeros(2, 60, **torch_double)
    means[0, 0], means[1, 0], means[1, 1] = 1, -0.6, 0.8
    ours, naive, held = [], [], 0
    for _ in range(300):
        gram, rows = gram_of(draw, means, 8, noise=0.25)
        found = measured(gram, rows).pairs[0].cosine
        ours.append(found.value)
        held += found.low <= -0.6 <= found.high
        sums = torch.stack([gram[:, list(own)].sum(1) for own in rows.values()])
        sums = torch.stack([sums[:, list(own)].sum(1) for own in rows.values()])
        naive.append(float(sums[0, 1] / (sums[0, 0] * sums[1, 1]).sqrt()))
    assert abs(torch.tensor(ours).mean() + 0.6) < 0.04
    assert -0.45 < torch.tensor(naive).mean() < -0.36
    assert held >= 0.93 * 300


def test_orthogonal_tasks_are_rarely_called_in_conflict(draw):
    """Of three pairs, in 200 draws; single batches meanwhile point apart in half of all cases."""
    means = torch.eye(3, 40, **torch_double)
    alarms, apart = 0, []
    for _ in range(200):
        found = measured(*gram_of(draw, means, 10, noise=0.3))
        alarms += any(pair.cosine.high < 0 for pair in found.pairs)
        apart += [pair.batches.apart for pair in found.pairs]
    assert alarms <= 0.05 * 200
    assert abs(sum(apart) / len(apart) - 0.5) < 0.03


def test_a_gradient_that_drowns_in_noise_gets_no_verdict(draw):
    """Its squared length is as often below zero as above; then nothing is said of its cosine."""
    means = torch.zeros(2, 40, **torch_double)
    means[0, 0] = 1
    found = [measured(*gram_of(draw, means, 8, noise=0.1)) for _ in range(100)]
    cosines = [one.pairs[0].cosine for one in found]
    assert sum(not cosine.known for cosine in cosines) > 50
    assert sum(cosine.high < 0 or cosine.low > 0 for cosine in cosines) <= 5
    assert all(one.pairs[0].cosine.known or not one.ratio.known for one in found)


def test_lengths_and_the_plain_step(draw):
    means = torch.tensor([[3.0, 0, 0], [-1.0, 0.5, 0], [0, 0.5, 0.5]], **torch_double)
    found = measured(*gram_of(draw, means, 12, noise=0.02))
    whole = means.sum(0)
    for task, own in zip(found.tasks, means, strict=True):
        expected = float(own @ whole / (own.norm() * whole.norm()))
        assert task.step.low - 0.01 <= expected <= task.step.high + 0.01
        assert task.length == pytest.approx(float(own.norm()), rel=0.05)
    assert (found.longest, found.shortest) == ("task 0", "task 2")
    assert found.ratio.low < 3 / 0.5**0.5 < found.ratio.high
    assert found.tasks[1].step.high < 0  # a plain step raises its loss


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.trunk = nn.Linear(4, 3, **torch_double)
        self.heads = nn.ModuleDict({name: nn.Linear(3, 1, **torch_double) for name in "ab"})
        self.dropout = nn.Dropout(0.5)

    def loss(self, task, x, y):
        return (self.heads[task](self.dropout(self.trunk(x))) - y).square().mean()


def test_it_reads_the_shared_gradients_and_leaves_no_trace():
    model = TwoHeads()
    draw = torch.Generator().manual_seed(1)
    batches = [
        {t: (torch.randn(5, 4, generator=draw, **torch_double), torch.ones(5, 1, **torch_double))
         for t in "ab"} for _ in range(4)
    ]  # fmt: skip
    model.trunk.weight.grad = torch.ones_like(model.trunk.weight)
    sample = GradientSample(model)
    for step in batches:
        sample.add({t: partial(model.loss, t, *batch) for t, batch in step.items()})
    found = sample.compare()
    assert model.training
    assert torch.equal(model.trunk.weight.grad, torch.ones_like(model.trunk.weight))
    assert model.heads["a"].weight.grad is None
    assert (found.trained, found.shared, found.batches) == (15 + 8, 15, 4)
    model.eval()
    vectors = []
    for task in "ab":
        for step in batches:
            grads = torch.autograd.grad(model.loss(task, *step[task]), [*model.trunk.parameters()])
            vectors.append(torch.cat([g.flatten() for g in grads]))
    oracle = measured(torch.stack(vectors) @ torch.stack(vectors).T, {"a": range(4), "b": range(4, 8)})
    assert found.pairs[0].cosine.value == pytest.approx(oracle.pairs[0].cosine.value, nan_ok=True)
    assert found.tasks[0].length == pytest.approx(oracle.tasks[0].length, nan_ok=True)
    assert found.tasks[1].batches.cosine == pytest.approx(oracle.tasks[1].batches.cosine)


def test_two_batches_are_too_few():
    model = TwoHeads()
    sample = GradientSample(model)
    x, y = torch.ones(2, 4, **torch_double), torch.ones(2, 1, **torch_double)
    for _ in range(2):
        sample.add({t: partial(model.loss, t, x, y) for t in "ab"})
    with pytest.raises(ValueError, match="2 batches of each task: an interval needs 3"):
        sample.compare()
    with pytest.raises(ValueError, match="give the same"):
        sample.add({"a": partial(model.loss, "a", x, y)})
