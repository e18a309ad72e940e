"""The page of a sweep: its trials, what matters, what failed."""

import json
import shutil

import pytest
from compare_toy import run_here, study_of
from report_support import Page
from train_toy import said


def test_a_sweep_gets_a_page_with_its_trials_and_the_best(swept, tmp_path, capsys):
    """`report` said that the folder held none of the runs that its comparison.json names."""
    assert (swept / "report.html").exists()
    run_here("report", swept, "--out", tmp_path / "page.html")
    capsys.readouterr()
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text == (swept / "report.html").read_text(encoding="utf-8")
    page, study = Page.of(text), study_of(swept)
    assert page.headings[0] == "swept: a sweep over train.lr, train.warmup, train.schedule"
    headings, *rows = page.table("trials")
    assert headings == ["trial", "dev average, %", "train.lr", "train.warmup", "train.schedule",
                        "processor, s", "state"]  # fmt: skip
    assert [int(row[0]) for row in rows] == [
        t.number for t in sorted(study.trials, key=lambda trial: -trial.value)
    ]
    for row in rows:
        trial = study.trials[int(row[0])]
        results = [
            json.loads((swept / f"trial-{trial.number:03d}" / f"seed-{s}/results.json").read_text())
            for s in (0, 1)
        ]
        scores = [(r["dev"]["film"]["accuracy"] + r["dev"]["bank"]["accuracy"]) / 2 for r in results]
        error = abs(scores[0] - scores[1]) / 2
        assert row[1] == f"{sum(scores) / 2:.2f} ± {error:.2f}"
        assert float(row[2]) == pytest.approx(trial.params["train.lr"], rel=1e-3)
        assert row[4] == trial.params["train.schedule"]
        spent = sum(r["cost"]["cpu_seconds"] for r in results)
        assert float(row[5]) == pytest.approx(spent, abs=0.51)
        assert row[-1] == ("best" if trial.number == study.best_trial.number else "finished")
    best = {row[0]: row[1] for row in page.table("best")[1:]}
    assert best["train.schedule"] == study.best_params["train.schedule"]
    assert not page.figures  # three trials are a table, and no chart
    assert {row[1] for row in page.table("by-value")[1:]} <= {"linear", "constant"}


def test_the_importance_of_settings_is_optuna_s(swept, tmp_path):
    import optuna

    folder = shutil.copytree(swept, tmp_path / "copied", ignore=shutil.ignore_patterns("checkpoints"))
    study = study_of(folder)
    for lr in (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 2e-3):
        study.enqueue_trial({"train.lr": lr})
        trial = study.ask()
        trial.suggest_float("train.lr", 1e-4, 1e-2, log=True)
        warmup = trial.suggest_categorical("train.warmup", [0, 0.5])
        study.tell(trial, 20 + 1e3 * lr + warmup)
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    assert shares["train.lr"] > 0.1
    run_here("report", folder)
    page = Page.of((folder / "report.html").read_text(encoding="utf-8"))
    assert {"figure-by-train-lr", "figure-by-train-warmup", "figure-course"} <= set(page.figures)
    (figure,) = [e for e in page.all if e.attributes.get("id") == "figure-importance"]
    for key, share in shares.items():
        assert f"{key}: {share:.3g}" in figure.text


def test_trials_that_failed_stand_on_the_page_with_the_reason(swept, tmp_path):
    import optuna

    folder = shutil.copytree(swept, tmp_path / "copied", ignore=shutil.ignore_patterns("checkpoints"))
    study = study_of(folder)
    for reason in ("ended with exit code 1: </script> out of memory", None):
        trial = study.ask()
        trial.suggest_float("train.lr", 1e-4, 1e-2, log=True)
        if reason:
            trial.set_user_attr("failure", reason)
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
    (folder / "best.yaml").unlink()
    run_here("report", folder)
    page = Page.of((folder / "report.html").read_text(encoding="utf-8"))
    states = [row[-1] for row in page.table("trials")[1:]]
    assert states[-2:] == ["ended with exit code 1: </script> out of memory", "interrupted"]
    assert "2 trials did not finish" in page.root.text
    assert (folder / "best.yaml").exists()


def test_a_sweep_without_a_finished_trial_is_told(tmp_path, capsys):
    optuna = pytest.importorskip("optuna")
    optuna.create_study(study_name="gradaccord", storage=f"sqlite:///{tmp_path / 'sweep.db'}")
    assert "a sweep of which no trial is finished" in said(capsys, "report", tmp_path)
    (tmp_path / "sweep.db").write_text("something else")
    assert "sweep.db holds no sweep, or is damaged" in said(capsys, "report", tmp_path)
