"""Runs on the multilingual sentence encoder: by rows, resumed, and asked afterwards."""

from __future__ import annotations

import json

import pytest
from small_use import need_package, save_small_use
from train_toy import said, same, shown_by, weights

from gradaccord.runs.log import read_log
from gradaccord.tasks.saved_models import load

TRAIN = {"steps": 6, "batch_size": 4, "save_every": 2, "evaluate_every": 6}
METHODS = {
    "pcgrad": {},
    "pcgrad, sketches": {"memory": "sketch"},
    "sequential_reptile": {"inner_steps": 4},
    "dotprod": {},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory, one_thread):
    need_package()
    return save_small_use(tmp_path_factory.mktemp("use") / "small")


@pytest.mark.parametrize("name", METHODS)
def test_a_run_steps_rows_and_resumes_bit_equal(name, model, configured, run, interrupted, tmp_path):
    method = {"name": name.split(",")[0], **METHODS[name]}
    config = configured(TRAIN, model=str(model), method=method)
    results = run(config, "whole")
    assert results.cost.steps == 6
    interrupted(config, "broken", after=3)
    run(config, "broken", resume=True)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "broken"))
    start, end = load_table(model), weights(tmp_path / "whole")["trunk.embedding.weight"]
    moved = int((start != end).any(1).sum())
    assert 0 < moved < 200  # the words of the files, and no row besides


def load_table(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")["embedding.weight"]


@pytest.mark.parametrize("optimizer", ["adafactor", {"name": "sgd", "momentum": 0.9}, "sgd"])
def test_optimisers_that_do_not_step_rows_step_the_whole_table(optimizer, model, configured, run):
    config = configured({**TRAIN, "optimizer": optimizer, "lr": 1e-2}, model=str(model))
    assert run(config).cost.steps == 6


def test_a_run_learns_and_its_folder_is_a_model(model, written, tmp_path, files, capsys):
    train = {"steps": 30, "lr": 1e-3, "head_lr": 5e-2, "batch_size": 8, "save_every": 30}
    file = written(model=str(model), train=train, method="pcgrad")
    shown_by(capsys, "train", file, "--out", tmp_path / "run")
    steps = [r for r in read_log(tmp_path / "run" / "log.jsonl") if r["event"] == "step"]
    for task in ("film", "bank", "long"):
        losses = [step["loss"][task] for step in steps]
        assert sum(losses[-5:]) < 0.7 * sum(losses[:5])
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["dev"]["film"]["accuracy"] > 80
    arguments = ["--task", "film", "--file", files / "film.dev.csv", "--out", tmp_path / "out.json"]
    shown_by(capsys, "evaluate", tmp_path / "run", *arguments)
    found = json.loads((tmp_path / "out.json").read_text())
    expected = results["dev"]["film"]["accuracy"]
    assert found["scores"]["accuracy"]["value"] == pytest.approx(expected)
    assert "yes" in shown_by(capsys, "predict", tmp_path / "run", "--task", "film", "film film film")
    # The folder is a model that others begin with.
    folder = tmp_path / "run" / "model"
    best, _, _ = load(folder)
    after = written("next.yaml", model=str(folder), train={**TRAIN, "steps": 1})
    shown_by(capsys, "train", after, "--out", tmp_path / "next")
    went_on = weights(tmp_path / "next")["trunk.embedding.weight"]
    changed = (went_on != best.trunk.embedding.weight).any(1)
    assert 0 < int(changed.sum()) < 200


def test_tasks_that_it_cannot_do_are_refused_in_a_sentence(model, files, tmp_path, capsys):
    file = tmp_path / "run.yaml"
    (tmp_path / "a.tsv").write_text("sentence1\tsentence2\tlabel\n" + "a\tb\tyes\nc\td\tno\n" * 4)
    file.write_text(f"model: {model}\ntasks:\n  a: {{train: a.tsv, pair: cross}}\n")
    assert "reads one text at a time: set `pair: separate`" in said(capsys, "validate", file)
    file.write_text(f"model: {model}\ntasks:\n  a: {{train: a.txt, kind: masked_lm}}\n")
    (tmp_path / "a.txt").write_text("one\ntwo\n" * 8)
    assert "has no mask token" in said(capsys, "validate", file)
    file.write_text(f"model: {model}\ntasks:\n  a: {{train: a.jsonl, kind: question_answering}}\n")
    question = {
        "id": "1",
        "question": "Who?",
        "context": "It was me.",
        "answers": ["me"],
        "starts": [7],
    }
    (tmp_path / "a.jsonl").write_text((json.dumps(question) + "\n") * 4)
    assert "The model use-multilingual" in said(capsys, "validate", file)
