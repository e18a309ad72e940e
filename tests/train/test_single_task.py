"""Single-task learning trains one model for each task."""

import json

from gradaccord.report.data import read_run


def test_single_task_learning_trains_one_model_a_task(configured, run, tmp_path):
    results = run(configured(method="stl", train={"steps": 6}))
    assert set(results.dev) == {"film", "bank", "long"}
    assert results.cost.steps == 18
    assert set(results.references) == {"film", "bank", "long"}
    for task in ("film", "bank", "long"):
        assert set(json.loads((tmp_path / "run" / task / "results.json").read_text())["dev"]) == {task}


def test_names_of_tasks_are_no_paths(configured, content, run, tmp_path):
    film, bank = content["tasks"]["film"], content["tasks"]["bank"]
    outside = str(tmp_path / "absolute")
    names = {"../../x": film, outside: bank, "results.json": film, "xnli/de": bank}
    results = run(configured(tasks=names, method="stl", train={"steps": 1}), "deep/down/run")
    assert list(results.trained) == list(names)
    folder = tmp_path / "deep" / "down" / "run"
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]
    assert [path.name for path in folder.parent.iterdir()] == ["run"]
    assert len([path for path in folder.iterdir() if (path / "log.jsonl").exists()]) == 4
    assert len(read_run(folder).steps) == 4  # the report finds the same folders
