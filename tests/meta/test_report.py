"""What an iteration reports, as a logger takes it."""

from __future__ import annotations

import math

from gradaccord.meta.report import MetaReport


def test_a_logger_gets_floats_alone_and_only_what_was_measured():
    report = MetaReport(0.5, 0.75, 4, 20, 1.5, finite=False)
    floats = report.to_floats()
    assert floats == {
        "query_loss": 0.5, "query_accuracy": 0.75, "tasks": 4.0, "gradients": 20.0, "seconds": 1.5,
        "finite": 0.0,
    }  # fmt: skip
    assert all(type(value) is float for value in floats.values())
    assert math.isnan(report.capped)


def test_inner_steps_are_numbered_from_one():
    report = MetaReport(0.5, 0.75, 4, 20, 1.5, capped=0.25, sigma_m=(0.1, 0.2), sigma_lambda=(0.3, 0.4))
    floats = report.to_floats()
    assert floats["capped"] == 0.25
    assert (floats["sigma_m/1"], floats["sigma_m/2"]) == (0.1, 0.2)
    assert (floats["sigma_lambda/1"], floats["sigma_lambda/2"]) == (0.3, 0.4)
