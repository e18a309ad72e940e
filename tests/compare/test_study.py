"""Where a sweep is kept: a journal that two commands share, a database elsewhere, one file."""

import shutil

import pytest
from compare_toy import run_here, runs_without_processes
from train_toy import said

from gradaccord.compare.study import read_study, without_password

pytest.importorskip("optuna")
RANGE = "train.lr=1e-4..1e-2"


def test_two_commands_share_a_sweep_through_a_journal(file, tmp_path, command):
    """No trial is done twice, none too many, and both end with all of them."""
    given = ["sweep", file, RANGE, "--trials", 4, "--storage", "journal", "--out", tmp_path / "s"]
    outs = [process.done()[0] for process in [command(*given), command(*given)]]
    trials = read_study(tmp_path / "s").trials
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * 4
    assert sorted(path.name for path in (tmp_path / "s").glob("trial-*")) == [
        f"trial-00{number}" for number in range(4)
    ]
    done = [out.count(": dev average") for out in outs]
    assert sum(done) == 4
    assert min(done) > 0
    assert (tmp_path / "s" / "best.yaml").exists()
    assert (tmp_path / "s" / "report.html").exists()


def test_a_database_elsewhere_leaves_a_copy_that_report_reads(file, tmp_path, capsys):
    database = f"sqlite:///{tmp_path / 'elsewhere.sqlite'}"
    given = ["sweep", file, RANGE, "--storage", database]
    with runs_without_processes():
        run_here(*given, "--trials", 1, "--out", tmp_path / "a")
        run_here(*given, "--trials", 1, "--out", tmp_path / "b")
        run_here(*given, "--trials", 2, "--out", tmp_path / "a")
    assert [len(read_study(tmp_path / name).trials) for name in "ab"] == [2, 1]
    shutil.rmtree(tmp_path / "b")
    run_here("report", tmp_path / "a")
    wrong = said(capsys, "sweep", file, RANGE, "--out", tmp_path / "a")
    assert "holds a sweep that is kept in a database: give its address as --storage" in wrong


@pytest.mark.parametrize(
    ("storage", "why"),
    [
        ("jornal", "--storage is 'jornal': write journal, or the address of a database"),
        ("nodialect://x/y", "--storage cannot be opened ("),
    ],
)
def test_a_storage_that_cannot_be_is_one_sentence(file, tmp_path, capsys, storage, why):
    given = ["sweep", file, RANGE, "--out", tmp_path / "s", "--storage", storage]
    assert why in said(capsys, *given)


def test_a_sweep_is_not_continued_in_another_storage(file, swept, capsys):
    wrong = said(capsys, "sweep", file, RANGE, "--out", swept, "--storage", "journal")
    assert "holds a sweep that is kept in a file: leave --storage out" in wrong


def test_passwords_are_not_written_down():
    assert without_password("postgresql://me:se:cr@et@host/db") == "postgresql://me:***@host/db"
    assert (
        without_password("--storage=mysql+pymysql://u:p@h/d") == "--storage=mysql+pymysql://u:***@h/d"
    )
    assert without_password("train.lr=1e-4..1e-2") == "train.lr=1e-4..1e-2"
