"""A task whose score no longer rises is dropped from the steps; the others go on."""

import pytest
from train_toy import said, same, weights

from gradaccord.runs.log import read_log
from gradaccord.train.task_patience import TaskPatience


def test_patience_counts_evaluations_in_a_row_without_a_better_score():
    patience = TaskPatience({"a": 2, "b": 1})
    assert patience.note(1, {"a": 50.0, "b": float("nan"), "c": 0.0}).keys() == {"b"}  # NaN is no score
    assert patience.note(2, {"a": 50.0, "b": 99.0}) == {}
    assert patience.note(3, {"a": 50.5, "b": 99.0}) == {}
    again = TaskPatience({"a": 2, "b": 1})
    again.load_state_dict(patience.state_dict())
    for one in (patience, again):
        assert one.note(4, {"a": 50.5}) == {}
        assert one.note(5, {"a": 50.0}) == {
            "a": "its score was not better than that at step 3 for 2 evaluations"
        }
        assert one.stopped == {"b": 1, "a": 5}


def of_steps(folder):
    return [sorted(r["loss"]) for r in read_log(folder / "log.jsonl") if r["event"] == "step"]


FAMILIES = {
    "pcgrad": {}, "dotprod": {"mode": "difference"}, "sequential_reptile": {"inner_steps": 5},
    "multitask_reptile": {"inner_steps": 2},
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_a_task_is_dropped_the_others_go_on_and_the_run_resumes_bit_equal(
    name, configured, content, run, interrupted, tmp_path
):
    """At this rate no score of film or bank gets better: after steps 4 and 6 they are dropped."""
    tasks = {task: dict(own) for task, own in content["tasks"].items()}
    tasks["film"]["patience"], tasks["bank"]["patience"] = 1, 2
    train = {"steps": 10, "lr": 1e-9, "evaluate_every": 2, "save_every": 3}
    sampler = {"name": "weighted", "weights": {"film": 1, "bank": 1, "long": 1}, "n": 3}
    alone = {"sampler": sampler} if name == "pcgrad" else {}
    method = {"name": name, **FAMILIES[name]}
    config = configured(tasks=tasks, train=train, method=method, **alone)
    told = []
    results = run(config, "whole", say=told.append)
    assert results.stopped == {"film": 4, "bank": 6}
    assert results.cost.steps == 10
    assert "film is not trained on any more, after step 4: its score was not better than that at " \
        "step 2 for 1 evaluation." in told  # fmt: skip
    names = {step.partition("#")[0] for steps in of_steps(tmp_path / "whole")[4:6] for step in steps}
    assert names <= {"bank", "long"}
    assert {step.partition("#")[0] for steps in of_steps(tmp_path / "whole")[6:] for step in steps} == {
        "long"
    }
    if name == "pcgrad":
        assert of_steps(tmp_path / "whole")[3:7] == [
            ["bank", "film", "long"], ["bank", "long"], ["bank", "long"], ["long"],
        ]  # fmt: skip
    for after in (3, 7):
        interrupted(config, f"broken-{after}", after=after)
        again = run(config, f"broken-{after}", resume=True)
        assert same(weights(tmp_path / "whole"), weights(tmp_path / f"broken-{after}"))
        assert of_steps(tmp_path / f"broken-{after}") == of_steps(tmp_path / "whole")
        assert again.stopped == results.stopped


def test_a_run_ends_when_no_task_is_left(configured, content, run, tmp_path):
    tasks = {task: {**own, "patience": 1} for task, own in content["tasks"].items() if task != "long"}
    train = {"steps": 20, "lr": 1e-12, "evaluate_every": 1}
    told = []
    results = run(configured(tasks=tasks, train=train), say=told.append)
    assert results.cost.steps == 2
    assert told[-1] == "Stopped early, after step 2: no task is left to train on."
    single = run(configured(tasks=tasks, train=train, method="stl"), "single")
    assert single.stopped == {"film": 2, "bank": 2}


def test_clusters_of_a_task_are_dropped_together(configured, content, run, tmp_path):
    film = {**content["tasks"]["film"], "clusters": 2, "batch_size": 4, "patience": 1}
    tasks = {"film": film, "bank": content["tasks"]["bank"]}
    train = {"steps": 3, "lr": 1e-12, "evaluate_every": 1}
    run(configured(tasks=tasks, train=train, method="pcgrad"))
    assert of_steps(tmp_path / "run") == [["bank", "film.1", "film.2"]] * 2 + [["bank"]]


def test_patience_needs_a_dev_split_and_training(content, written, capsys):
    film = content["tasks"]["film"]
    task = {**film, "files": {"train": film["files"]["train"]}, "patience": 2}
    wrong = said(capsys, "validate", written(tasks={"film": task}))
    assert "Task 'film': `patience` is 2, and the task has no labelled dev split" in wrong
    overrides = ["tasks.bank.evaluate_only=true", "tasks.bank.patience=2"]
    assert "`patience` is for training" in said(capsys, "validate", written(), *overrides)
    assert "`tasks.bank.patience` is 0" in said(capsys, "validate", written(), "tasks.bank.patience=0")
