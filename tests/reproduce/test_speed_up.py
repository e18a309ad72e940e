"""Steps to fixed scores, and the speed-up over the control, pair by pair."""

import math

import pytest
from reproduce_toy import made_record

from gradaccord.reproduce.plan import plan
from gradaccord.reproduce.records import Point, steps_to
from gradaccord.reproduce.speed_up import best_step, speed_up_tables


def curve(scores, every=100):
    return [
        {"step": every * i, "gradients": i, "seconds": i, "values": {"average": score}}
        for i, score in enumerate(scores)
    ]


def points(scores):
    return [Point(**point) for point in curve(scores)]


def test_the_first_passage_counts_and_is_interpolated():
    found = points([20.0, 30.0, 25.0, 45.0])
    assert steps_to(found, 25) == pytest.approx(50)
    assert steps_to(found, 35) == pytest.approx(250)
    assert steps_to(found, 20) == 0
    assert math.isnan(steps_to(found, 46))
    assert math.isnan(steps_to([], 20))


def test_the_first_of_equal_bests_counts():
    assert best_step(points([20.0, 40.0, 30.0, 40.0])) == 100
    assert math.isnan(best_step([]))


def speeds(trio, fast_of):
    """The table of a design in which pcgrad has the curve of its seed, and plain one that is known."""
    design = trio.small.model_copy(update={"levels": (30.0, 50.0), "controls": {"pcgrad": "plain"}})
    planned = plan(trio, budget="epochs", only=["plain", "pcgrad"], variants=["two"])
    slow = curve([20.0, 25.0, 30.0, 35.0, 40.0])
    records = [
        made_record(one, 0.0, curve=fast_of(one.seed) if one.arm == "pcgrad" else slow)
        for one in planned
    ]
    (grid,) = speed_up_tables(design, records)
    return grid


def test_twice_as_fast_is_a_speed_up_of_100_percent(trio):
    grid = speeds(trio, lambda seed: curve([20.0, 30.0, 40.0 + seed, 39.0, 39.0]))
    assert grid.title == "two: steps to fixed scores"
    rows = {row[2]: row[3:] for row in grid.rows}
    assert rows["30"] == ("3 of 3", "200 ± 0", "100 ± 0", "+100")
    assert rows["50"] == ("0 of 3 (arm never: 3, control never: 3)", "–", "–", "–")
    assert rows["best validation"] == ("3 of 3", "400 ± 0", "200 ± 0", "+100")


def test_ratios_are_averaged_as_logarithms_with_an_interval(trio):
    """Seeds at twice and at half the speed cancel, and the interval says how little is known."""
    grid = speeds(
        trio, lambda seed: curve([20.0, [30.0, 22.5, 25.0][seed], [31.0, 25.0, 30.0][seed], 27.5, 30.0])
    )
    rows = {row[2]: row[3:] for row in grid.rows}
    assert rows["30"][:3] == ("3 of 3", "200 ± 0", "233 ± 88")
    low, high = rows["30"][3].removeprefix("+0 [").removesuffix("]").split(", ")
    assert (float(low), float(high)) == (pytest.approx(-82, abs=1), pytest.approx(459, abs=3))


def test_without_levels_there_is_no_table(trio):
    planned = plan(trio, budget="epochs", only=["plain"], variants=["two"])
    assert not list(speed_up_tables(trio.small, [made_record(one, 0.0) for one in planned]))


def test_a_record_has_its_steps_as_a_metric(trio):
    (planned,) = plan(trio, budget="epochs", only=["plain"], variants=["two"], seeds=1)
    record = made_record(planned, 0.0, curve=curve([20.0, 30.0]))
    assert record.value("steps to 22.5") == pytest.approx(25)
    assert record.value("steps to 31") == 100  # never reached: its last step is a lower bound
    assert math.isnan(record.model_copy(update={"curve": []}).value("steps to 20"))


def test_a_score_that_is_there_at_the_start_is_told(trio):
    grid = speeds(trio, lambda seed: curve([31.0, 32.0, 33.0, 34.0, 40.0]))
    rows = {row[2]: row[3:] for row in grid.rows}
    assert rows["30"] == ("0 of 3 (at the start: 3)", "–", "–", "–")
