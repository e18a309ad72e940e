"""Runs from configuration to results: every method, resumed bit-equal, judged, saved, read again."""

import csv
import json
import shutil
import subprocess

import pytest
import torch
from train_toy import same, weights
from transformers import AutoModel

from gradaccord.methods.registry import METHODS
from gradaccord.runs.checkpoints import Checkpoints
from gradaccord.runs.files import RunFolderError
from gradaccord.runs.log import read_log
from gradaccord.runs.results import Results
from gradaccord.tasks.saved_models import load
from gradaccord.train.config_file import check_config
from gradaccord.train.loop import TrainingLoop
from gradaccord.train.run import same_tasks

OPTIONS = {
    "torchjd": {"weighting": "UPGrad"},
    "sequential_reptile": {"inner_steps": 5},
    "reptile": {"inner_steps": 5},
    "fomaml": {"inner_steps": 3},
    "multitask_reptile": {"inner_steps": 2},
    "averaged": {"decay": 0.7, "start": 2},
    "sequential_averaged": {"average": "swa", "start": 5},
    "dotprod": {"mode": "difference"},
}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains_and_resumes_bit_equal(name, configured, run, interrupted, tmp_path):
    config = configured(method={"name": name, **OPTIONS.get(name, {})})
    results = run(config, "whole")
    assert results.cost.steps == 12
    assert all(0 <= results.dev[task]["accuracy"] <= 100 for task in ("film", "bank"))

    # The same run, interrupted after the seventh step, between two checkpoints, and resumed.
    interrupted(config, "broken", after=7)
    again = run(config, "broken", resume=True)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "broken"))
    assert again.dev == results.dev
    losses = [
        [
            record["loss"]
            for record in read_log(tmp_path / folder / "log.jsonl")
            if record["event"] == "step"
        ]
        for folder in ("whole", "broken")
    ]
    assert losses[0] == losses[1]


def test_windows_of_three_batches_train_and_resume_while_one_waits(
    configured, run, interrupted, tmp_path
):
    config = configured(method={"name": "dotprod", "mode": "difference", "every": 3})
    run(config, "whole")
    steps = [r for r in read_log(tmp_path / "whole" / "log.jsonl") if r["event"] == "step"]
    assert ["dot" in step for step in steps] == [False, False, True] * 4  # the pair is the last two
    interrupted(config, "broken", after=8)
    run(config, "broken", resume=True)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "broken"))


def test_torchjd_weights_belong_to_the_tasks_as_configured(configured, run, monkeypatch):
    """Whatever a sampler draws first: `long` has the last of the constant weights."""
    taken = TrainingLoop.take_step
    methods = []

    def step(loop, log):
        rows = taken(loop, log)
        methods.append(loop.phase.method)
        return rows

    monkeypatch.setattr(TrainingLoop, "take_step", step)
    method = {"name": "torchjd", "weighting": "Constant", "weights": [1, 2, 5]}
    sampler = {"name": "weighted", "weights": {"film": 1, "bank": 1, "long": 50}, "n": 1}
    run(configured(method=method, sampler=sampler, train={"steps": 2}))
    assert methods[0].tasks == ["film", "bank", "long"]
    assert methods[0].weightings[0].weights.tolist() == [1, 2, 5]


def test_torchjd_weighting_with_an_option(configured, run):
    method = {"name": "torchjd", "weighting": "CAGrad", "c": 0.5}
    assert run(configured(method=method, train={"steps": 2})).cost.steps == 2


@pytest.mark.parametrize("optimizer", ["sgd", "adafactor", "recadam"])
def test_other_optimisers_resume_bit_equal(optimizer, configured, run, tmp_path, interrupted):
    config = configured(train={"steps": 6, "optimizer": optimizer, "lr": 1e-4})
    run(config, "whole")
    interrupted(config, "broken", after=4)
    run(config, "broken", resume=True)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "broken"))


def test_a_run_learns_and_writes_down_everything(configured, run, tmp_path):
    config = configured(train={"steps": 160, "lr": 5e-3, "evaluate_every": 0.25, "patience": 9})
    results = run(config)
    assert results.dev["film"]["accuracy"] >= 90
    assert results.dev["bank"]["accuracy"] >= 90
    folder = tmp_path / "run"
    assert {path.name for path in folder.iterdir()} >= {
        "config.yaml", "about.json", "log.jsonl", "results.json", "checkpoints", "best", "model",
    }  # fmt: skip
    about = json.loads((folder / "about.json").read_text())
    assert about["versions"]["torch"] == torch.__version__
    last = results.last
    assert last.distance.total > 0
    assert len(last.task_cosine.matrix) == 3
    assert results.errors["film"].confusion.labels == ("no", "yes")
    assert sum(results.errors["long"].histogram.counts) == 16
    assert len(results.evaluations) == 4
    film = results.reference("film", "dev")
    assert (film.chance, film.majority, film.mark) == (50.0, 50.0, "")
    assert results.references["long"].majority == 0.0
    assert Results.read(folder).references == results.references


def test_the_log_and_the_notes_of_a_run_hold_what_the_docs_say(configured, run, tmp_path, monkeypatch):
    repository = tmp_path / "repository"
    repository.mkdir()
    monkeypatch.chdir(repository)
    for line in ("init -q", "-c user.name=a -c user.email=a@b commit -q --allow-empty -m first"):
        subprocess.run(["git", *line.split()], check=True)
    run(configured(method="pcgrad", train={"steps": 2}), command=["gradaccord", "train", "it"])
    about = json.loads((tmp_path / "run" / "about.json").read_text())
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert about["git"] == head.stdout.strip()
    assert about["command"] == ["gradaccord", "train", "it"]
    assert about["system"]
    assert about["cores"]
    records = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    steps = [record for record in records if record["event"] == "step"]
    assert [record["step"] for record in steps] == [1, 2]
    for record in steps:
        assert {*record["loss"]} == {"film", "bank", "long"}
        assert {"cosine", "dot", "conflicts", "lr"} <= {*record}


def test_the_saved_model_predicts_as_the_trained_one(configured, run, tmp_path, files):
    from gradaccord.train.predict import Predictor

    results = run(configured(train={"steps": 40, "lr": 5e-3}))
    model, _, tasks = load(tmp_path / "run" / "model")
    assert set(tasks) == {"film", "bank", "long"}
    trunk = AutoModel.from_pretrained(tmp_path / "run" / "model")
    ours = model.trunk.model.state_dict()
    assert all(torch.equal(value, ours[name]) for name, value in trunk.state_dict().items())
    predictor = Predictor(tmp_path / "run", "film")
    with (files / "film.dev.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    answers = predictor([predictor.example(row["text"]) for row in rows])
    right = sum(answer == row["label"] for answer, row in zip(answers, rows, strict=True))
    assert 100 * right / len(rows) == pytest.approx(results.dev["film"]["accuracy"])


# Faults


def test_a_corrupt_checkpoint_falls_back_and_says_so(configured, run, tmp_path, interrupted):
    config = configured()
    whole = run(config, "whole")
    interrupted(config, "broken", after=9)
    newest = sorted((tmp_path / "broken" / "checkpoints").glob("step-*"))[-1] / "state-0.pt"
    newest.write_bytes(newest.read_bytes()[:100])
    said = []
    again = run(config, "broken", resume=True, say=said.append)
    assert any("is skipped" in sentence and "damaged" in sentence for sentence in said)
    assert "Continued at step 8." in said
    assert again.dev == whole.dev


def test_a_full_disk_keeps_the_checkpoint_before(configured, run, tmp_path, monkeypatch):
    saved = torch.save

    def full(state, file):
        if state.get("step", 0) > 4:
            raise OSError(28, "No space left on device")
        saved(state, file)

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space left"):
        run(configured())
    monkeypatch.setattr(torch, "save", saved)
    assert [p.name for p in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000004"]
    assert run(configured(), resume=True).cost.steps == 12


@pytest.mark.parametrize("name", ["sum", "reptile"])  # the second one's state has names of weights, too
def test_a_checkpoint_of_0_1_goes_on_bit_equal(name, configured, run, interrupted, tmp_path):
    """There the keys of heads had no prefix, and the batches of steps another name."""

    def as_before(state):
        if isinstance(state, dict):
            return {as_before(key): as_before(value) for key, value in state.items()}
        if isinstance(state, list):
            return [as_before(value) for value in state]
        if isinstance(state, str):
            return state.replace("heads.head_", "heads.").replace("step_batches", "feeder")
        return state

    config = configured(method={"name": name, **OPTIONS.get(name, {})})
    run(config, "whole")
    interrupted(config, "old", after=7)
    for folder in ("checkpoints", "best"):
        kept = Checkpoints(tmp_path / "old" / folder)
        path, state = kept.newest()
        before = as_before(state)
        assert {"heads.film", "heads.bank"} <= {".".join(key.split(".")[:2]) for key in before["model"]}
        kept.save(int(path.name.removeprefix("step-")), before)
    run(config, "old", resume=True)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "old"))


def test_the_log_is_on_the_disk_before_the_checkpoint_that_goes_on_from_it(configured, run, tmp_path):
    """Killed at any moment, the log has every step up to the last checkpoint."""
    seen = {}

    def look(progress):  # as another process would, after every step
        kept = sorted(tmp_path.glob("run/checkpoints/step-*[0-9]"))
        if kept:
            log = read_log(tmp_path / "run" / "log.jsonl")
            steps = [record["step"] for record in log if record["event"] == "step"]
            seen[int(kept[-1].name[5:])] = max(steps, default=0)

    run(configured(train={"save_every": 2, "evaluate_every": 12}), show=look)
    assert set(seen) == {2, 4, 6, 8, 10, 12}
    assert all(last >= step for step, last in seen.items()), seen


def test_a_limit_of_inf_survives_a_resume(configured, run, interrupted):
    config = configured(train={"steps": 4, "clip": float("inf")})
    interrupted(config, "broken", after=2)
    assert run(config, "broken", resume=True).cost.steps == 4


def test_a_checkpoint_that_does_not_fit_is_told(configured, run, interrupted, content, tmp_path):
    """A class was added to the data: the configuration is the same, the head is larger."""
    film = {k: v for k, v in content["tasks"]["film"].items() if k != "labels"}
    files = {split: str(tmp_path / f"{split}.csv") for split in film["files"]}
    for split, path in film["files"].items():
        shutil.copy(path, files[split])
    config = configured(tasks={"film": {**film, "files": files}}, train={"steps": 4})
    interrupted(config, "broken", after=2)
    with open(files["train"], "a") as file:
        file.write("a film,perhaps\n")
    with pytest.raises(RunFolderError, match="does not fit this run") as raised:
        run(config, "broken", resume=True)
    assert "\n" not in str(raised.value)
    assert str(tmp_path / "broken" / "checkpoints" / "step-00000002") in str(raised.value)


def test_two_tasks_that_are_the_same_are_told(content):
    film = content["tasks"]["film"]
    config = check_config(
        {**content, "tasks": {"film": film, "again": film, "half": {**film, "weight": 0.5}}}
    )
    assert [*same_tasks(config)] == [
        "Warning: film and again are the same task: the same data with the same options."
    ]
