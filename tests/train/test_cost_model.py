"""The cost model: its line, its terms against counted ones, and its use in the estimate of a run."""

from __future__ import annotations

import pytest

from gradaccord.train.cost_model import (
    READS,
    Line,
    combination_seconds,
    seconds_per_number,
    step_seconds,
)


def test_a_line_goes_through_its_ends_and_never_falls() -> None:
    line = Line.through([(300, 0.7), (100, 0.3)])
    assert line.at(100) == pytest.approx(0.3)
    assert line.at(200) == pytest.approx(0.5)
    assert Line.through([(100, 0.3)]) == Line(0.3, 0.0)  # one size alone
    assert Line.through([(100, 0.3), (300, 0.2)]).at(500) == pytest.approx(0.3)  # noise
    steep = Line.through([(100, 0.1), (120, 0.34)])  # noise too: 120 tokens do not take triple the time
    assert steep.fixed == 0.0
    assert steep.at(110) == pytest.approx(0.22)


def test_gradients_of_drawn_steps_are_averaged_with_their_cost() -> None:
    lines = {"long": Line(0.0, 0.01), "short": Line(0.1, 0.0)}
    steps = [[("long", 100)], [("short", 7)], [("long", 200)]]
    assert step_seconds(lines, steps, cost=2.0) == pytest.approx(2 * (1.0 + 0.1 + 2.0) / 3)


def test_one_task_has_nothing_to_combine() -> None:
    assert combination_seconds(1, 10**9, 1e-9) == 0.0
    eight = combination_seconds(8, 10**6, 1e-9)
    assert eight == pytest.approx(8 * READS * 1e-3)


def test_memory_is_read_at_a_speed_that_exists() -> None:
    assert 1e-12 < seconds_per_number() < 1e-7
