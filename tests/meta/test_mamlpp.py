"""MAML++ equals plain autograd, with its schedules."""

from __future__ import annotations

import pytest
from few_shot_toys import (
    LR,
    K,
    Net,
    assert_gradients,
    batch,
    naive_mamlpp,
    perturb,
)

from gradaccord.meta import MAMLPlusPlus
from gradaccord.meta.learners.mamlpp import multi_step_weights


@pytest.mark.parametrize("epoch", [0, 4, 15])
@pytest.mark.parametrize("statistics", ["batch", "running"])
def test_mamlpp_equals_autograd_whatever_the_epoch(epoch: int, statistics: str) -> None:
    learner = MAMLPlusPlus(
        Net(), inner_lr=LR, inner_steps=K, epoch_length=2, second_order_from=2, statistics=statistics
    )
    perturb(learner)
    for _ in range(2 * epoch + 1):
        learner.after_step()
    tasks = batch()
    expected = naive_mamlpp(
        learner,
        tasks,
        query_weights=multi_step_weights(K, epoch, 15),
        first_order=epoch < 2,
    )
    report = learner.backward(tasks)
    assert_gradients(learner, expected)
    assert report.gradients == 3 * (2 * K if epoch < 15 else K + 1)


def test_weights_of_the_multi_step_loss_are_the_authors() -> None:
    assert multi_step_weights(5, 0, 15) == pytest.approx([0.2] * 5)
    middle = multi_step_weights(5, 9, 15)
    assert middle == pytest.approx([0.2 - 9 / 75] * 4 + [0.2 + 36 / 75])
    assert sum(multi_step_weights(5, 14, 15)) == pytest.approx(1)
    assert min(multi_step_weights(5, 1499, 1500)) == pytest.approx(0.03 / 5)
    assert multi_step_weights(5, 15, 15) == [0, 0, 0, 0, 1]
