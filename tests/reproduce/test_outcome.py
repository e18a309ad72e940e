"""What a special experiment hands back, as the record that it becomes."""

from __future__ import annotations

import time

from gradaccord.reproduce.records import Point, RunRecord
from gradaccord.reproduce.special.outcome import SpecialOutcome, measured

KEY = {
    "entry": "a", "size": "small", "variant": "main", "arm": "all", "budget": "epochs", "seed": 3,
    "settings": {},
}  # fmt: skip


def test_an_outcome_is_a_record_with_its_cost(tmp_path):
    seen = []

    def experiment(settings, seed, *, data, folder):
        seen.append((settings, seed, data, folder))
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass
        test = {"x1": {"trapped": 50.0, "loss": -250.0}, "x2": {"loss": -1.0, "trapped": 0.0}}
        curve = [Point(step=1, gradients=2, seconds=0.5, values={"accuracy": 10.0})]
        return SpecialOutcome(test, ["x2"], curve=curve, steps=4, gradients=8.0)

    found = measured(experiment, {"seeds": 2}, 3, None, tmp_path)
    assert seen == [({"seeds": 2}, 3, None, tmp_path)]
    record = RunRecord(**KEY, **found)
    assert record.metrics == {"x1": "trapped", "x2": "loss"}  # the first of each
    assert (record.trained, record.value()) == (["x2"], -1.0)
    assert record.cost.cpu_seconds >= 0.02
    assert (record.cost.steps, record.cost.gradients) == (4, 8.0)
    assert record.curve[0].values == {"accuracy": 10.0}


def test_all_tasks_are_in_the_average_unless_some_are_named(tmp_path):
    def experiment(settings, seed, *, data, folder):
        return SpecialOutcome({"a": {"accuracy": 40.0}, "b": {"accuracy": 60.0}})

    record = RunRecord(**KEY, **measured(experiment, {}, 3, None, tmp_path))
    assert (record.trained, record.value()) == (["a", "b"], 50.0)
