"""How long a run still takes: steps, evaluations with probes, and the last scores."""

from __future__ import annotations

import math

import pytest

from gradaccord.train.time_left import FORWARD, TimeLeft, evaluations


def after(steps: int, of: int = 100, **options: float) -> TimeLeft:
    """A run of 100 steps of 2 s on 10 rows, evaluated every 20 steps, test twice as large as dev."""
    made = TimeLeft(int(options.get("every", 20)), dev_rows=300, test_rows=600)
    made.begin(0.0)
    for step in range(steps):
        made.stepped(2.0, (step + 1) / of, rows=10)
    return made


def test_evaluations_to_come_count_and_the_last_scores_too() -> None:
    made = after(30)
    made.evaluated(10.0)
    # 70 steps; evaluations at 40, 60, 80 and 100; at the end dev once more, and test.
    assert made.seconds(30) == pytest.approx(70 * 2.0 + 4 * 10.0 + 10.0 + 20.0)


def test_before_the_first_evaluation_it_is_guessed_from_the_steps() -> None:
    dev = FORWARD * 2.0 / 10 * 300
    assert after(10).seconds(10) == pytest.approx(90 * 2.0 + 5 * dev + dev + 2 * dev)


def test_a_phase_that_is_not_evaluated_is_its_steps_alone() -> None:
    assert after(10).seconds(None) == pytest.approx(90 * 2.0)
    assert math.isnan(after(0).seconds(0))


def test_a_resumed_run_is_timed_from_where_it_goes_on() -> None:
    made = TimeLeft(0.25, dev_rows=0, test_rows=0)
    made.begin(0.5)
    for step in range(10):
        made.stepped(1.0, 0.5 + (step + 1) / 100, rows=4)
    assert made.seconds(60) == pytest.approx(40.0)


@pytest.mark.parametrize("every", [0.25, 0.3, 0.01, 4, 5])
def test_evaluations_are_counted_as_a_run_does_them(every, configured, run):
    results = run(configured(train={"steps": 10, "evaluate_every": every}))
    assert evaluations(every, 10) == len(results.evaluations)
