"""How far a run is: the limit that ends it first decides."""

from __future__ import annotations

import pytest

from gradaccord.meta.progress import RunProgress


@pytest.mark.parametrize(
    ("iteration", "iterations", "seconds", "minutes", "share", "left"),
    [
        (25, 100, 50.0, None, 0.25, 150.0),
        (25, 100, 50.0, 1.0, 50 / 60, 10.0),
        (90, 100, 6.0, 1.0, 0.9, 20.0),
        (5, None, 30.0, 1.0, 0.5, 30.0),
        (120, 100, 70.0, 1.0, 1.0, 0.0),
    ],
)
def test_share_and_time_left_follow_the_first_limit(
    iteration, iterations, seconds, minutes, share, left
):
    progress = RunProgress(iteration, iterations, seconds, minutes, pace=2.0)
    assert progress.share == pytest.approx(share)
    assert progress.seconds_left == pytest.approx(left)
    progress.evaluation_left = 7.0
    assert progress.seconds_left == pytest.approx(left + 7)


def test_what_is_done_beside_training_is_shown_with_its_share():
    progress, seen = RunProgress(0, 10, 0.0, None), []
    count = progress.counter(lambda now: seen.append(now.doing), "validating", 8)
    count(2)
    count(8)
    assert seen == ["validating, 0%", "validating, 25%", "validating, 100%"]
