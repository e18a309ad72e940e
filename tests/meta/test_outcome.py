"""What tasks add to an iteration: sums over all of them, whatever each reaches."""

from __future__ import annotations

from typing import Any

import torch

from gradaccord.meta.learners.outcome import Outcome


def one(gradients: list[torch.Tensor | None], loss: float, **counts: Any) -> Outcome:
    return Outcome(gradients, torch.tensor(loss), torch.tensor(loss / 4), 1, **counts)


def test_a_total_is_the_sum_and_each_is_made_after_the_one_before_is_added() -> None:
    made = []

    def outcomes():
        for k in range(3):
            made.append(k)
            reached = [torch.full((2,), float(k)), None, torch.ones(1) if k == 1 else None]
            yield one(reached, float(k), spent=k, pairs=2, capped=1, kept={"means": [k]})

    total = Outcome.total(outcomes())
    assert made == [0, 1, 2]
    assert total.gradients[0].tolist() == [3.0, 3.0]
    assert total.gradients[1] is None
    assert total.gradients[2].tolist() == [1.0]
    assert (float(total.loss), float(total.accuracy)) == (3.0, 0.75)
    assert (total.tasks, total.spent, total.pairs, total.capped) == (3, 3, 6, 3)
    assert total.kept == {"means": [0, 1, 2]}


def test_memory_that_autograd_shares_is_not_added_to() -> None:
    shared = torch.ones(2)
    total = Outcome.total(iter([one([shared, shared], 1.0, spent=1) for _ in range(2)]))
    assert shared.tolist() == [1.0, 1.0]
    assert total.gradients[0].tolist() == total.gradients[1].tolist() == [2.0, 2.0]


def test_one_process_keeps_its_own_and_counts_stay_whole(group) -> None:
    total = one([torch.ones(2), None], 2.5, spent=7, pairs=3)
    for over in (None, group):
        total.sum_over_processes(over)
        assert total.gradients[0].tolist() == [1.0, 1.0]
        assert total.gradients[1] is None
        assert (float(total.loss), total.tasks, total.spent, total.pairs) == (2.5, 1, 7, 3)
    assert isinstance(total.spent, int)
