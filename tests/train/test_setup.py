"""Unseen tasks use a trained head; clusters of a task are tasks."""

from gradaccord.runs.log import read_log


def test_unseen_tasks_are_judged_by_a_trained_head(content, configured, run):
    tasks = {
        **content["tasks"],
        "unseen": {**content["tasks"]["bank"], "evaluate_only": True, "source": "film"},
    }
    results = run(configured(tasks=tasks))
    assert results.trained == ["film", "bank", "long"]
    assert "unseen" in results.dev


def test_clusters_of_a_task_are_trained_on_as_tasks(content, configured, run, tmp_path):
    tasks = {"film": {**content["tasks"]["film"], "clusters": 2, "batch_size": 4}}
    said = []
    results = run(configured(tasks=tasks, method="pcgrad", train={"steps": 4}), say=said.append)
    assert results.trained == ["film"]
    assert "accuracy" in results.dev["film"]
    records = [r for r in read_log(tmp_path / "run" / "log.jsonl") if r["event"] == "step"]
    assert all(set(record["loss"]) == {"film.1", "film.2"} for record in records)
    assert any(sentence.startswith("Clusters: film.1") for sentence in said)
