"""`gradaccord compare` and `sweep` as commands: tables, controls, reuse, deaths, Ctrl-C."""

import csv
import json
import os
import shutil
import signal
from threading import Thread

import pytest
from filelock import FileLock
from report_support import Page
from small_models import save_checkpoint
from train_toy import content_of, said, same, until, weights, write_files

from gradaccord.cli.app import main
from gradaccord.compare.runs import threads_of_each
from gradaccord.runs.lock import locked
from gradaccord.train.config_file import check_config, read_config, write_config

METHODS = "pcgrad;dotprod:mode=difference"
# Controls included: DotProd's also at a longer step.
COMPARED = ("sum", "pcgrad", "paired_sum", "paired_sum@1.1", "dotprod:mode=difference")
TRAIN = {"steps": 4, "evaluate_every": 4, "save_every": 2}
PROBE = {"cosine_batches": 1, "errors": 1}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A folder that all processes of pytest-xdist share, and its lock."""
    base = tmp_path_factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return root / "compare", FileLock(root / "compare.lock")


@pytest.fixture(scope="module")
def file(shared):
    """Two tasks, four steps: eight gradients a run."""
    folder, lock = shared
    with lock:
        if not (folder / "two.yaml").exists():
            (folder / "data").mkdir(parents=True)
            checkpoint = save_checkpoint(folder / "model", "bert")
            content = content_of(checkpoint, write_files(folder / "data"))
            content["tasks"].pop("long")
            content |= {"train": {**content["train"], **TRAIN}, "probe": PROBE}
            write_config(check_config(content), folder / "two.yaml")
    return folder / "two.yaml"


@pytest.fixture(scope="module")
def finished(file, shared):
    """A comparison of two methods on two seeds, done once for all tests that look at it."""
    folder, lock = shared
    with lock:
        out = folder / "finished"
        if not (out / "comparison.json").exists():
            run_here("compare", file, "--methods", METHODS, "--seeds", 2, "--out", out, "--jobs", 2)
    return out


@pytest.fixture
def copied(finished, tmp_path):
    """A copy of it, to break."""
    return shutil.copytree(finished, tmp_path / "compared")


def run_here(*arguments):
    """In this process: its runs are processes of their own in any case."""
    with pytest.raises(SystemExit) as end:
        main([str(one) for one in arguments])
    assert end.value.code == 0


def table(folder):
    methods = json.loads((folder / "comparison.json").read_text())["methods"]
    return {row["method"]: row for row in methods}


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.glob("*/seed-*/results.json")}


def test_the_table_has_every_method_its_control_and_every_seed(finished):
    rows = table(finished)
    assert tuple(rows) == COMPARED
    assert {name for name, row in rows.items() if row["is_control"]} == {
        "paired_sum", "paired_sum@1.1",
    }  # fmt: skip
    assert rows["pcgrad"]["control"] == "sum"
    assert rows["dotprod:mode=difference"]["control"] in ("paired_sum", "paired_sum@1.1")
    for row in rows.values():
        assert row["seeds"] == [0, 1]
        assert row["missing"] == {}
        assert row["train_loss"]["mean"] > 0
        assert row["distance"]["mean"] > 0
        assert -1 <= row["cosine"]["mean"] <= 1


def test_its_means_are_those_of_the_runs(finished):
    rows = table(finished)
    for name, row in rows.items():
        folder = finished / name.replace(":", "_")
        results = [json.loads((folder / f"seed-{s}" / "results.json").read_text()) for s in (0, 1)]
        for task in ("film", "bank"):
            values = [result["dev"][task]["accuracy"] for result in results]
            assert row["scores"][task]["mean"] == pytest.approx(sum(values) / 2)
        assert [result["seed"] for result in results] == [0, 1]


def test_budgets_are_equal_in_batch_gradients(finished):
    """Four steps of two tasks are eight gradients; a pair of DotProd by differences takes three."""
    spent = {name: row["costs"]["gradients"] for name, row in table(finished).items()}
    assert spent == {
        "sum": 1.0, "pcgrad": 1.0, "paired_sum": 1.0, "paired_sum@1.1": 1.0,
        "dotprod:mode=difference": pytest.approx(9 / 8),
    }  # fmt: skip


def test_markdown_and_csv_say_the_same(finished):
    text = (finished / "comparison.md").read_text()
    rows = table(finished)
    for name in rows:
        assert f"| {name}" in text
    assert "| paired_sum (control) |" in text
    with (finished / "comparison.csv").open(newline="") as lines:
        flat = list(csv.DictReader(lines))
    assert len(flat) == len(rows) * 3  # two tasks and their average
    for line in flat:
        row = rows[line["method"]]
        assert float(line["mean"]) == pytest.approx(row["scores"][line["task"]]["mean"])
        if line["task"] != "average":
            assert line["to baseline"] == line["memory"] == ""
            continue
        assert float(line["to baseline"]) == pytest.approx(row["vs_baseline"]["mean"])
        assert line["its control"] == (row["control"] or "")
        if row["vs_control"] and row["vs_control"]["p"] is not None:
            assert float(line["p to control"]) == pytest.approx(row["vs_control"]["p"])
        assert float(line["time"]) == pytest.approx(row["costs"]["seconds"])
        assert float(line["train loss"]) == pytest.approx(row["train_loss"]["mean"])


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_terminal_shows_every_number_in_one_piece(copied, file, width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    run_here("compare", file, "--methods", METHODS, "--seeds", 2, "--out", copied)
    out = capsys.readouterr().out
    shown, _, _ = out.partition("Scores are in percent")
    assert all(len(line) <= width for line in shown.splitlines()[1:])
    for row in table(copied).values():
        for scores in row["scores"].values():
            assert f"{scores['mean']:.2f} ± {scores['error']:.2f}" in shown
        assert f"{row['costs']['seconds']:.2f}x" in shown


def test_finished_runs_are_reused(file, copied):
    before = times(copied)
    arguments = ["compare", file, "--methods", METHODS, "--out", copied]
    run_here(*arguments, "--seeds", 2)
    assert times(copied) == before
    run_here(*arguments, "--seeds", 1, "--methods", "pcgrad", "--no-controls")
    assert times(copied) == before
    assert tuple(table(copied)) == ("sum", "pcgrad")


def test_a_worker_that_fails_or_is_killed_leaves_the_others_going(file, copied, capsys):
    """One is killed (SIGKILL), one cannot write; the table names both, the next call mends them."""
    killed, stopped = copied / "pcgrad" / "seed-1", copied / "paired_sum" / "seed-0"
    whole = weights(killed)
    for folder in (killed, stopped, copied / "sum" / "seed-1"):
        shutil.rmtree(folder)
    stopped.mkdir(parents=True)
    (stopped / "checkpoints").write_text("a file in the way")
    arguments = ["compare", file, "--methods", METHODS, "--seeds", 2, "--out", copied, "--jobs", 3]
    killer = Thread(target=kill_the_one_in, args=[killed])
    killer.start()
    run_here(*arguments)
    killer.join()
    out = capsys.readouterr().out
    assert "pcgrad, seed 1, was killed by signal 9" in out
    assert "paired_sum, seed 0, ended with exit code 2" in out
    rows = table(copied)
    assert rows["pcgrad"]["seeds"] == [0]
    assert "killed by signal 9" in rows["pcgrad"]["missing"]["1"]
    assert rows["paired_sum"]["seeds"] == [1]
    assert rows["sum"]["seeds"] == [0, 1]
    text = (copied / "comparison.md").read_text()
    assert "Missing: pcgrad, seed 1: was killed by signal 9" in text
    assert "Missing: paired_sum, seed 0: ended with exit code 2" in text

    (stopped / "checkpoints").unlink()
    run_here(*arguments)
    assert all(row["missing"] == {} for row in table(copied).values())
    assert same(weights(killed), whole)


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_every_run_and_the_same_command_goes_on(file, tmp_path, command, kind):
    """So does SIGTERM, by which schedulers end a process: no run is left behind without a parent."""
    arguments = ["compare", file, "--methods", "sum", "--seeds", 1, "--out", tmp_path / "long"]
    arguments += ["train.steps=100", "train.evaluate_every=100", "train.save_every=10"]
    compared = command(*arguments)
    run = tmp_path / "long" / "sum" / "seed-0"
    until(lambda: list(run.glob("checkpoints/step-*0")) or compared.poll() is not None)
    compared.send_signal(kind)
    out, _ = compared.done(130)
    assert "every run is saved. The same command goes on" in out
    step = int(sorted(run.glob("checkpoints/step-*"))[-1].name.removeprefix("step-"))
    assert 0 < step < 100
    assert not process_of(run)
    assert f"Saved at step {step}." in (run / "output.txt").read_text()
    run_here(*arguments)
    assert f"Continued at step {step}." in (run / "output.txt").read_text()
    assert json.loads((run / "results.json").read_text())["cost"]["steps"] == 100


def test_a_run_whose_comparison_is_killed_saves_and_ends(file, tmp_path, command):
    arguments = ["compare", file, "--methods", "sum", "--seeds", 1, "--out", tmp_path / "long"]
    arguments += ["train.steps=5000", "train.evaluate_every=5000", "train.save_every=10"]
    compared = command(*arguments)
    run = tmp_path / "long" / "sum" / "seed-0"
    until(lambda: list(run.glob("checkpoints/step-*0")))
    compared.kill()
    until(lambda: not process_of(run))
    assert "Saved at step " in (run / "output.txt").read_text()


def test_no_run_that_finishes_is_one_sentence(file, tmp_path, capsys):
    (tmp_path / "all" / "sum" / "seed-0").mkdir(parents=True)
    (tmp_path / "all" / "sum" / "seed-0" / "checkpoints").write_text("in the way")
    wrong = said(capsys, "compare", file, "--methods", "sum", "--seeds", 1, "--out", tmp_path / "all")
    assert "No run finished: sum seed 0 ended with exit code 2" in wrong


def test_two_comparisons_in_one_folder(file, tmp_path, capsys):
    with locked(tmp_path / "both"):
        wrong = said(capsys, "compare", file, "--methods", "sum", "--out", tmp_path / "both")
    assert f"{tmp_path / 'both'} is in use by another process" in wrong
    assert not (tmp_path / "both" / "sum").exists()


def test_threads_that_were_asked_for_are_not_exceeded(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert threads_of_each(2) == 1
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert threads_of_each(2) == 4


def test_other_settings_are_refused_in_one_sentence(file, copied, capsys):
    wrong = said(capsys, "compare", file, "train.lr=0.5", "--out", copied, "--seeds", 2)
    assert "holds a run with other settings" in wrong


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--methods", "pcgard"], "The method 'pcgard' is unknown: did you mean 'pcgrad'?"),
        (["--methods", "dotprod:wieght=1"], "has no option 'wieght': did you mean 'weight'?"),
        (["--methods", "sum+smrt"], "adds 'smrt': what can be added is smart, swep, recadam"),
        (["--methods", ","], "`--methods` is empty"),
        (["--seeds", "0"], "Invalid value for '--seeds'"),
    ],
)
def test_a_mistake_is_one_sentence_before_any_work(file, tmp_path, capsys, arguments, sentence):
    assert sentence in said(capsys, "compare", file, "--out", tmp_path / "none", *arguments)
    assert not (tmp_path / "none").exists()


def test_a_sweep_resumes_where_it_was(file, tmp_path, capsys):
    optuna = pytest.importorskip("optuna")
    arguments = ["sweep", file, "train.lr=1e-4..1e-2", "train.warmup=0,0.5", "--out", tmp_path / "s"]
    run_here(*arguments, "--trials", 2)
    first = capsys.readouterr().out
    assert first.count("dev average") == 2
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "s").glob("trial-*/*/results.json")}
    assert len(before) == 2
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


@pytest.fixture(scope="module")
def swept(file, shared):
    """A finished sweep over a number, a few numbers and a word, three trials of two seeds."""
    pytest.importorskip("optuna")
    folder, lock = shared
    ranges = ["train.lr=1e-4..1e-2", "train.warmup=0,0.5", "train.schedule=linear,constant"]
    with lock:
        out = folder / "swept"
        if not (out / "report.html").exists():
            run_here("sweep", file, *ranges, "--out", out, "--trials", 3, "--seeds", 2, "--jobs", 2)
    return out


def study_of(folder):
    import optuna

    return optuna.load_study(study_name="gradaccord", storage=f"sqlite:///{folder / 'sweep.db'}")


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
                        "time, s", "state"]  # fmt: skip
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
        assert row[-1] == ("best" if trial.number == study.best_trial.number else "finished")
    best = {row[0]: row[1] for row in page.table("best")[1:]}
    assert best["train.schedule"] == study.best_params["train.schedule"]
    assert {"figure-by-train-lr", "figure-by-train-warmup", "figure-course"} <= set(page.figures)
    assert {row[1] for row in page.table("by-value")[1:]} <= {"linear", "constant"}


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


def kill_the_one_in(folder):
    until(lambda: process_of(folder))
    os.kill(process_of(folder), signal.SIGKILL)


def process_of(folder):
    """The process that trains in a folder; 0 while there is none."""
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                if str(folder / "wanted.yaml").encode() in file.read().split(b"\0"):
                    return int(entry)
        except (OSError, ValueError):
            continue
    return 0
