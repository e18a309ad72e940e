"""The curves that trackers show are those of the log."""

import json
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from accelerate.tracking import LOGGER_TYPE_TO_CLASS
from train_toy import said

from gradaccord.runs.log import read_log
from gradaccord.train.trackers import Trackers, flat


def curves(folder):
    """Tag -> {step: value}, as TensorBoard itself reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard" / "gradaccord"))
    events.Reload()
    return {tag: {e.step: e.value for e in events.Scalars(tag)} for tag in events.Tags()["scalars"]}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("asked", [{"tensorboard": True}, {"log_with": "tensorboard"}])
def test_curves_are_those_of_the_log_also_after_a_restart(
    asked, configured, run, tmp_path, interrupted
):
    pytest.importorskip("tensorboard")
    config = configured(train={**asked, "steps": 8, "evaluate_every": 4}, method="pcgrad")
    assert config.train.trackers == ["tensorboard"]
    interrupted(config, "run", after=5)
    run(config, resume=True)

    found = curves(tmp_path / "run")
    records = read_log(tmp_path / "run" / "log.jsonl")
    steps = [record for record in records if record["event"] == "step"]
    assert len(steps) == 8
    for task in ("film", "bank", "long"):
        expected = {r["step"]: r["loss"][task] for r in steps}
        assert found[f"loss/{task}"] == pytest.approx(expected, rel=1e-6)
    assert found["alignment/cosine"] == pytest.approx({r["step"]: r["cosine"] for r in steps}, rel=1e-6)
    evaluations = {r["step"]: r for r in records if r["event"] == "evaluation"}
    assert sorted(evaluations) == [4, 8]
    assert found["scores/film/accuracy"] == pytest.approx(
        {step: r["scores"]["film"]["accuracy"] for step, r in evaluations.items()}
    )
    assert found["distance/total"] == pytest.approx(
        {step: r["distance"]["total"] for step, r in evaluations.items()}, rel=1e-6
    )


def test_nothing_is_written_unless_asked_for(configured, run, tmp_path):
    run(configured(train={"steps": 1}))
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_a_missing_package_is_named_with_the_remedy(written, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    file = written(train={"tensorboard": True, "steps": 1})
    wrong = said(capsys, "train", file, "--out", tmp_path / "run")
    assert 'pip install "gradaccord[tensorboard]"' in wrong
    # A run that failed before its first step does not stand in the way of the next try.
    said(capsys, "train", written(train={"steps": 1}), "--out", tmp_path / "run", code=0)


@pytest.mark.parametrize("name", ["wandb", "mlflow", "trackio"])
def test_a_tracker_that_is_not_installed_is_one_sentence(name, written, tmp_path, capsys):
    if find_spec(name) is not None:
        pytest.skip(f"{name} is installed")
    file = written(train={"log_with": [name, "tensorboard"], "steps": 1})
    wrong = said(capsys, "validate", file)
    assert f"`train.log_with` names {name} and the package is missing: pip install {name}." in wrong


def test_an_unknown_tracker_is_one_sentence(written, capsys):
    assert "tensorboard" in said(capsys, "validate", written(), "train.log_with=[tensorbord]")


def test_settings_are_flat_and_name_no_folders():
    settings = {
        "model": {"name": "/me/bert", "lora": None},
        "train": {"lr": 0.1, "x": ["/a/b", 1]},
    }
    assert flat(settings) == {"model.name": "bert", "train.lr": 0.1, "train.x": "b, 1"}


@pytest.mark.parametrize("name", ["wandb", "mlflow", "trackio"])
def test_what_a_tracker_is_started_with_is_what_accelerate_takes(name, tmp_path):
    """Accelerate's own class of the tracker is made with them; it imports the package later."""

    class Recorded:
        log_with = (name,)

        def init_trackers(self, project, config, init_kwargs):
            self.started = LOGGER_TYPE_TO_CLASS[name](project, **init_kwargs[name])
            self.config = config

        def get_tracker(self, wanted, unwrap):
            return SimpleNamespace(info=SimpleNamespace(run_id="1234"))

    first, second = Recorded(), Recorded()
    Trackers(first, tmp_path, {"train": {"lr": 0.1}})
    Trackers(second, tmp_path, {"train": {"lr": 0.1}}, resume_at=4)
    assert first.config == {"train.lr": 0.1}
    assert second.config is None
    if name == "mlflow":
        assert (first.started.run_id, second.started.run_id) == (None, "1234")
    else:
        assert first.started.init_kwargs == second.started.init_kwargs  # the same run goes on


def test_wandb_offline_gets_the_log_and_goes_on_with_its_run(
    configured, run, interrupted, tmp_path, monkeypatch
):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    config = configured(train={"log_with": "wandb", "steps": 4, "evaluate_every": 4})
    interrupted(config, "run", after=2)
    run(config, resume=True)
    kept = list((tmp_path / "run" / "wandb").glob("offline-run-*/run-*.wandb"))
    assert kept
    assert {path.stem.removeprefix("run-") for path in kept} == {
        json.loads((tmp_path / "run" / "trackers.json").read_text())["id"]
    }
    assert wandb.run is None  # closed


def test_a_tracker_that_cannot_begin_is_one_sentence(written, tmp_path, capsys):
    pytest.importorskip("tensorboard")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "tensorboard").write_text("in the way")
    file = written(train={"log_with": "tensorboard", "steps": 1})
    wrong = said(capsys, "train", file, "--out", tmp_path / "run")
    assert "`train.log_with` is tensorboard, which could not be started (" in wrong
