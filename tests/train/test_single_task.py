"""Single-task learning trains one model for each task."""

import json


def test_single_task_learning_trains_one_model_a_task(configured, run, tmp_path):
    results = run(configured(method="stl", train={"steps": 6}))
    assert set(results.dev) == {"film", "bank", "long"}
    assert results.cost.steps == 18
    assert set(results.references) == {"film", "bank", "long"}
    for task in ("film", "bank", "long"):
        assert set(json.loads((tmp_path / "run" / task / "results.json").read_text())["dev"]) == {task}
