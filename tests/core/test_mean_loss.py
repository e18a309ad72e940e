"""The mean over micro-batches of any size, which is that of the whole batch."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from toy import (
    assert_grads_close,
    autograd_of,
    batch,
    grads,
    loss_of,
    trunk,
)

import gradaccord
from gradaccord.core.mean_loss import MeanLoss


def test_15_loss_multiplied_by_the_number_of_micro_batches():
    """Micro-batches of unequal size give the gradient and the loss of the whole batch."""
    whole, cut = trunk(), trunk()
    data = {t: batch(i, size=11) for i, t in enumerate("abc")}

    def counted(task, tokens, labels):
        return loss_of(cut, task, tokens, labels), len(labels)

    pieces = {
        t: [partial(counted, t, x[a:b], y[a:b]) for a, b in ((0, 2), (2, 9), (9, 11))]
        for t, (x, y) in data.items()
    }
    expected = gradaccord.GradVac(whole).backward(
        {t: partial(loss_of, whole, t, *xy) for t, xy in data.items()}
    )
    report = gradaccord.GradVac(cut).backward(pieces)
    torch.testing.assert_close(report.losses, expected.losses)
    torch.testing.assert_close(report.gram, expected.gram)
    assert_grads_close(grads(cut), grads(whole))


def test_15_micro_batches_without_counts_are_averaged():
    model = trunk()
    calls = [partial(loss_of, model, "a", *batch(i)) for i in range(3)]
    gradaccord.Sum(model).backward({"a": calls})
    expected = autograd_of(model, sum(call() for call in calls) / 3)
    assert_grads_close(grads(model), expected)


@pytest.mark.parametrize("unit", [1.0, 4.0])
def test_mean_and_factor_are_those_of_all_items(unit):
    """What is run backward, summed and times the factor, is the mean over items: in any unit."""
    sizes = (3.0, 5.0, 2.0)
    weight = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    values = (0.5, -1.0, 4.0)
    mean = MeanLoss("a", lambda items: unit)
    for value, size in zip(values, sizes, strict=True):
        mean.add(weight * value, size).backward()
    factor, loss, items = mean.result()
    expected = sum(v * n for v, n in zip(values, sizes, strict=True)) / sum(sizes)
    assert items == 10.0
    assert float(loss) == pytest.approx(expected, rel=1e-15)
    assert factor * float(weight.grad) == pytest.approx(expected, rel=1e-15)


def test_a_micro_batch_taken_back_leaves_no_trace():
    mean, again = MeanLoss("a", float), MeanLoss("a", float)
    for each in (mean, again):
        each.add(torch.tensor(2.0), 3.0)
    mean.add(torch.tensor(float("nan")), 5.0)
    mean.undo()
    assert mean.result() == again.result() == (1.0, torch.tensor(2.0), 3.0)


def test_counts_now_and_then_are_refused():
    mean = MeanLoss("b", float)
    mean.add(torch.tensor(1.0), 3.0)
    with pytest.raises(ValueError, match="Task 'b' returned the number of items for some"):
        mean.add(torch.tensor(1.0), None)
