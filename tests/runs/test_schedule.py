"""A schedule rises and ends; what is due comes once at each point."""

from __future__ import annotations

import pytest
import torch

from gradaccord.runs.schedule import Schedule, is_due


@pytest.mark.parametrize("kind", ["linear", "cosine", "constant"])
def test_a_schedule_rises_and_ends(kind):
    weight = torch.nn.Parameter(torch.zeros(1))
    schedule = Schedule(torch.optim.SGD([weight], lr=2.0), kind, 0.1)
    assert schedule.factor(0.0) == 0
    assert schedule.factor(0.1) == pytest.approx(1)
    assert schedule.factor(1.0) == pytest.approx(1 if kind == "constant" else 0, abs=1e-12)
    schedule.set(0.1, 0.0)
    assert schedule.optimizer.param_groups[0]["lr"] == pytest.approx(2)


def test_a_cosine_falls_to_its_floor_and_no_schedule_rises_after_the_warm_up():
    schedule = Schedule(torch.optim.SGD([torch.zeros(1)], lr=1.0), "cosine", 0.0, floor=0.1)
    factors = [schedule.factor(i / 50) for i in range(51)]
    assert factors[0] == 1
    assert factors[25] == pytest.approx(0.5)
    assert factors[-1] == 0.1
    assert factors == sorted(factors, reverse=True)


def test_the_first_step_of_a_warm_up_has_a_rate_above_0_in_every_group():
    weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    optimizer = torch.optim.SGD(
        [{"params": [w], "lr": lr} for w, lr in zip(weights, (1.0, 3.0), strict=True)]
    )
    Schedule(optimizer, "linear", 0.1).set(0.0, 0.02)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.1, 0.3])


def test_steps_are_due_by_number_and_shares_once_at_each_point():
    assert [step for step in range(1, 10) if is_due(3, step, 0.0, 0.0)] == [3, 6, 9]
    assert not any(is_due(never, step, 0.0, 1.0) for never in (0, 0.0) for step in range(5))
    shares = [i / 7 for i in range(8)]  # whatever the steps, a quarter is passed four times
    due = [is_due(0.25, i, shares[i - 1], shares[i]) for i in range(1, 8)]
    assert sum(due) == 4
    assert due[-1]
    assert is_due(0.1, 1, 0.2, 0.1 + 0.2)  # which is more than 0.3 by rounding
    assert is_due(0.1, 1, 0.6, 1 - 0.3)  # and less than 0.7
