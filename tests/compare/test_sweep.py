"""Sweeps: ranges, resuming, the best settings."""

import json

import pytest
from compare_toy import run_here, runs_without_processes, study_of
from train_toy import same, until, weights

from gradaccord.compare.processes import Processes
from gradaccord.compare.sweep import Range, sweep
from gradaccord.runs.files import RunFolderError
from gradaccord.runs.lock import locked
from gradaccord.train.config_file import check_config, read_config


def test_ranges():
    assert Range.parse("method.every=2,5,10").values == (2, 5, 10)
    wide = Range.parse("train.lr=1e-5..1e-3")
    assert (wide.low, wide.high, wide.log, wide.whole) == (1e-5, 1e-3, True, False)
    whole = Range.parse("method.inner_steps=10..60")
    assert (whole.whole, whole.log) == (True, False)
    for text, why in (
        ("a", "no values"),
        ("a=5..1", "is empty"),
        ("a=x..y", "not between two numbers"),
    ):
        with pytest.raises(ValueError, match=why):
            Range.parse(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("trian.lr=1e-5..1e-3", "the top level has no key 'trian': did you mean 'train'"),
        ("train.lr.low=1..2", "sets a key of 'lr', which is 2e-05 and has no keys"),
    ],
)
def test_a_range_of_what_does_not_exist_is_told(text, said, tmp_path):
    pytest.importorskip("optuna")
    base = check_config({"tasks": {"a": "sst"}})
    with pytest.raises(ValueError, match=said):
        sweep(
            base,
            [Range.parse(text)],
            trials=1,
            seeds=1,
            folder=tmp_path,
            data=None,
            runner=Processes(1),
        )


def test_a_sweep_resumes_where_it_was(file, tmp_path, capsys):
    optuna = pytest.importorskip("optuna")
    arguments = ["sweep", file, "train.lr=1e-4..1e-2", "train.warmup=0,0.5", "--out", tmp_path / "s"]
    with runs_without_processes():
        run_here(*arguments, "--trials", 2)
    first = capsys.readouterr().out
    assert first.count("dev average") == 2
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "s").glob("trial-*/*/results.json")}
    assert len(before) == 2
    with runs_without_processes():
        run_here(*arguments, "--trials", 4)
    second = capsys.readouterr().out
    assert second.count("dev average") == 2
    assert "Best on dev: " in second
    study = optuna.load_study(
        study_name="gradaccord", storage=f"sqlite:///{next((tmp_path / 's').glob('*.db'))}"
    )
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 4
    assert all(1e-4 <= trial.params["train.lr"] <= 1e-2 for trial in study.trials)
    assert len({trial.params["train.lr"] for trial in study.trials}) == 4
    for path, time in before.items():
        assert path.stat().st_mtime_ns == time
    for trial in study.trials:
        results = json.loads(
            (tmp_path / "s" / f"trial-{trial.number:03d}" / "seed-0" / "results.json").read_text()
        )
        scores = [results["dev"][task]["accuracy"] for task in ("film", "bank")]
        assert trial.value == pytest.approx(sum(scores) / 2)


def test_the_best_settings_of_a_sweep_are_a_file_that_train_reads(swept, tmp_path):
    """And training with it is the best trial again."""
    study = study_of(swept)
    config = read_config(swept / "best.yaml")
    assert config.train.lr == study.best_params["train.lr"]
    assert config.train.schedule == study.best_params["train.schedule"]
    run_here("train", swept / "best.yaml", "--out", tmp_path / "again")
    again = json.loads((tmp_path / "again" / "results.json").read_text())
    trial = swept / f"trial-{study.best_trial.number:03d}" / "seed-0"
    assert again["dev"] == json.loads((trial / "results.json").read_text())["dev"]
    assert same(weights(tmp_path / "again"), weights(trial))


def test_a_killed_trial_goes_on_and_the_sweep_is_the_same(written, tmp_path, command):
    """The same settings in the same order, and the same weights, as in a sweep that was not killed."""
    pytest.importorskip("optuna")
    file = written(train={"steps": 240, "save_every": 5, "evaluate_every": 240})
    given = [file, "train.lr=1e-4..1e-2", "--trials", 2]
    killed = tmp_path / "killed"
    process = command("sweep", *given, "--out", killed)
    saved = "trial-000/seed-0/checkpoints/step-*5"
    until(lambda: list(killed.glob(saved)) or process.poll() is not None)
    process.kill()
    process.wait()
    own = killed / "trial-000" / "seed-0"
    until(lambda: not in_use(own))  # the run has seen the end of its parent, and saved
    assert not (own / "results.json").exists()
    (killed / "best.yaml").unlink(missing_ok=True)
    command("sweep", *given, "--out", killed).done()
    assert "Continued at step" in (own / "output.txt").read_text()
    command("sweep", *given, "--out", tmp_path / "whole").done()
    trials = [study_of(folder).trials for folder in (killed, tmp_path / "whole")]
    assert [trial.params for trial in trials[0]] == [trial.params for trial in trials[1]]
    assert [trial.value for trial in trials[0]] == [trial.value for trial in trials[1]]
    for trial in ("trial-000", "trial-001"):
        one, other = (weights(folder / trial / "seed-0") for folder in (killed, tmp_path / "whole"))
        assert same(one, other)


def in_use(folder):
    try:
        with locked(folder):
            return False
    except RunFolderError:
        return True
