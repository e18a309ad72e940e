"""Runs from configuration to results: every method, resumed bit-equal, judged, saved, read again."""

import csv
import json
import subprocess

import pytest
import torch
from small_models import TEXTS, save_checkpoint
from train_toy import same, until, weights, without_dropout
from transformers import AutoModel

from gradaccord.methods.registry import METHODS
from gradaccord.runs.checkpoints import load as load_state
from gradaccord.runs.files import RunFolderError
from gradaccord.runs.log import read_log
from gradaccord.tasks.saved import load
from gradaccord.train.loop import TrainingLoop
from gradaccord.train.not_finite import TrainingError

OPTIONS = {
    "torchjd": {"weighting": "UPGrad"},
    "sequential_reptile": {"inner_steps": 5},
    "reptile": {"inner_steps": 5},
    "fomaml": {"inner_steps": 3},
    "multitask_reptile": {"inner_steps": 2},
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


def test_torchjd_weights_belong_to_the_tasks_as_configured(configured, run, monkeypatch):
    """Whatever a sampler draws first: `long` has the last of the constant weights."""
    taken = TrainingLoop.take_step
    methods = []

    def step(loop, log):
        taken(loop, log)
        methods.append(loop.phase.method)

    monkeypatch.setattr(TrainingLoop, "take_step", step)
    method = {"name": "torchjd", "weighting": "Constant", "weights": [1, 2, 5]}
    sampler = {"name": "weighted", "weights": {"film": 1, "bank": 1, "long": 50}, "n": 1}
    run(configured(method=method, sampler=sampler, train={"steps": 2}))
    assert methods[0].tasks == ["film", "bank", "long"]
    assert methods[0].weightings[0].weights.tolist() == [1, 2, 5]


def test_torchjd_weighting_with_an_option(configured, run):
    method = {"name": "torchjd", "weighting": "CAGrad", "c": 0.5}
    assert run(configured(method=method, train={"steps": 2})).cost.steps == 2


@pytest.mark.parametrize("term", ["smart", "swep"])
def test_regularisers_train_and_resume_bit_equal(term, configured, run, tmp_path, interrupted):
    config = configured(regularize=[term], method="pcgrad", train={"steps": 6, "save_every": 3})
    run(config, "whole")
    interrupted(config, "broken", after=4)
    run(config, "broken", resume=True)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "broken"))


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


def test_trajectory_methods_are_evaluated_and_saved_at_their_outer_weights(
    configured, run, tmp_path, checkpoint
):
    """With an outer rate of almost nothing those are the pretrained ones, wherever a run is stopped."""
    method = {"name": "sequential_reptile", "inner_steps": 5, "outer_lr": 1e-9}
    results = run(configured(method=method, train={"steps": 8, "lr": 1e-2, "evaluate_every": 3}))
    assert len(results.evaluations) >= 2
    assert all(each.distance.total < 1e-5 for each in results.evaluations)
    before, after = (
        AutoModel.from_pretrained(folder).state_dict()
        for folder in (checkpoint, tmp_path / "run" / "model")
    )
    assert all(torch.allclose(value, after[name], atol=1e-6) for name, value in before.items())
    plain = run(configured(method="sum", train={"steps": 8, "lr": 1e-2, "evaluate_every": 3}), "plain")
    assert plain.evaluations[-1].distance.total > 1e-2


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


def test_single_task_learning_trains_one_model_a_task(configured, run, tmp_path):
    results = run(configured(method="stl", train={"steps": 6}))
    assert set(results.dev) == {"film", "bank", "long"}
    assert results.cost.steps == 18
    for task in ("film", "bank", "long"):
        assert set(json.loads((tmp_path / "run" / task / "results.json").read_text())["dev"]) == {task}


def test_a_warm_start_trains_its_task_alone_first(configured, run, tmp_path):
    run(configured(train={"steps": 4, "warm_start": {"task": "film", "epochs": 1}}))
    records = [r for r in read_log(tmp_path / "run" / "log.jsonl") if r["event"] == "step"]
    warm = [r for r in records if r["phase"] == "warm start"]
    assert len(warm) == 8  # 64 examples in batches of 8
    assert all(list(r["loss"]) == ["film"] for r in warm)
    assert all(len(r["loss"]) == 3 for r in records[8:])


def test_a_warm_start_resumes_bit_equal(configured, run, tmp_path, interrupted):
    config = configured(train={"steps": 6, "warm_start": {"task": "film", "epochs": 1}})
    run(config, "whole")
    interrupted(config, "broken", after=5)
    run(config, "broken", resume=True)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "broken"))


def test_unseen_tasks_are_judged_by_a_trained_head(content, configured, run):
    tasks = {
        **content["tasks"],
        "unseen": {**content["tasks"]["bank"], "evaluate_only": True, "source": "film"},
    }
    results = run(configured(tasks=tasks))
    assert results.trained == ["film", "bank", "long"]
    assert "unseen" in results.dev


def test_budgets_are_what_they_say(configured, run):
    by_gradients = {"steps": None, "gradients": 30}
    assert run(configured(train=by_gradients), "sum").cost.steps == 10  # three tasks a step
    pairs = configured(train=by_gradients, method={"name": "dotprod", "mode": "difference"})
    assert run(pairs, "dotprod").cost.steps == 10  # 2 batches at 1.5 gradients
    epochs = configured(train={"steps": None, "epochs": 1})
    assert run(epochs, "epochs").cost.steps == 8  # 24 batches, three a step


def test_micro_batches_give_the_same_weights(content, configured, run, tmp_path, checkpoint):
    plain = {"steps": 3, "optimizer": "sgd", "lr": 0.05}
    tasks = {name: {**task, "dropout": 0.0} for name, task in content["tasks"].items()}
    model = {"name": str(without_dropout(checkpoint, tmp_path / "model"))}
    run(configured(train=plain, tasks=tasks, model=model), "whole")
    run(configured(train={**plain, "micro_batches": 4}, tasks=tasks, model=model), "parts")
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    close = [torch.allclose(one[n], other[n], atol=1e-5) for n in one if one[n].is_floating_point()]
    assert all(close)


def test_dropout_is_on_from_the_first_step(configured, run, tmp_path):
    """A pretrained trunk comes in evaluation mode, and would stay in it until the first evaluation."""
    first = []
    for seed in (0, 1):  # the same rows and weights, other dropout: seeds differ after the first step
        run(configured(train={"steps": 2, "seed": 0, "micro_batches": 1 + seed}), f"run{seed}")
        first.append(read_log(tmp_path / f"run{seed}" / "log.jsonl")[0]["loss"])
    assert first[0] != pytest.approx(first[1], rel=1e-3)


def test_clusters_of_a_task_are_trained_on_as_tasks(content, configured, run, tmp_path):
    tasks = {"film": {**content["tasks"]["film"], "clusters": 2, "batch_size": 4}}
    said = []
    results = run(configured(tasks=tasks, method="pcgrad", train={"steps": 4}), say=said.append)
    assert results.trained == ["film"]
    assert "accuracy" in results.dev["film"]
    records = [r for r in read_log(tmp_path / "run" / "log.jsonl") if r["event"] == "step"]
    assert all(set(record["loss"]) == {"film.1", "film.2"} for record in records)
    assert any(sentence.startswith("Clusters: film.1") for sentence in said)


def test_without_a_dev_split_the_last_weights_are_kept(content, configured, run, tmp_path):
    film = {**content["tasks"]["film"], "files": {"train": content["tasks"]["film"]["files"]["train"]}}
    said = []
    results = run(configured(tasks={"film": film}), say=said.append)
    assert any("No trained task has a labelled dev split" in sentence for sentence in said)
    assert results.best_step == 12
    kept = load_state(tmp_path / "run" / "best" / "step-00000012")["model"]
    assert same(kept, weights(tmp_path / "run"))


# Faults


def test_a_loss_that_is_not_finite_stops_with_task_step_and_examples(
    configured, run, tmp_path, monkeypatch
):
    from gradaccord.tasks.kinds.classification import Classification

    plain = Classification.loss

    def poisoned(self, output, batch):
        loss, items = plain(self, output, batch)
        return loss * (float("nan") if poisoned.calls > 40 else 1.0), items

    poisoned.calls = 0

    def counted(self, output, batch):
        poisoned.calls += 1
        return poisoned(self, output, batch)

    monkeypatch.setattr(Classification, "loss", counted)
    with pytest.raises(TrainingError) as caught:
        run(configured(train={"steps": 40, "save_every": 2}))
    assert "is not finite at step" in str(caught.value)
    assert "'film'" in str(caught.value) or "'bank'" in str(caught.value)
    assert "the checkpoint before is" in str(caught.value)
    assert list((tmp_path / "run" / "checkpoints").glob("step-*"))


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


def test_a_folder_with_a_run_is_not_overwritten(configured, run):
    config = configured(train={"steps": 2})
    results = run(config)
    with pytest.raises(RunFolderError, match="holds a finished run: continue it with --resume"):
        run(config)
    said = []
    assert run(config, resume=True, say=said.append) == results
    assert "nothing to do" in said[0]
    with pytest.raises(RunFolderError, match="started with another `train`"):
        run(configured(train={"steps": 3}), resume=True)


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


def test_killed_and_resumed_through_the_command_line(written, tmp_path, command):
    file = written(train={"steps": 60, "save_every": 5, "evaluate_every": 60})
    killed = command("train", file, "--out", tmp_path / "killed")
    until(lambda: list(tmp_path.glob("killed/checkpoints/step-*5")) or killed.poll() is not None)
    killed.kill()
    killed.wait()
    assert not (tmp_path / "killed" / "results.json").exists()
    out, _ = command("train", file, "--out", tmp_path / "killed", "--resume").done()
    assert "Continued at step" in out
    command("train", file, "--out", tmp_path / "whole").done()
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "killed"))


def test_what_is_forgotten_is_followed(tmp_path, configured, run, files):
    checkpoint = save_checkpoint(tmp_path / "mlm", "bert", head=True)
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(TEXTS * 4))
    probe = {"masked_lm": {"seen": str(lines)}, "cosine": False}
    results = run(configured(model=str(checkpoint), probe=probe, train={"lr": 5e-3}))
    losses = [record.masked_lm["seen"] for record in results.evaluations]
    assert len(losses) == 2
    assert losses[0] != losses[1]


def test_a_model_without_a_masked_lm_head_is_told(configured, run, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("a line of text")
    with pytest.raises(ValueError, match="no trained masked-LM head"):
        run(configured(probe={"masked_lm": {"seen": str(lines)}}))
