"""The command `reproduce`: its runs, its tables, what it says where something is missing."""

import shutil

import pytest
from reproduce_toy import ENTRIES, TRIO, runs_in_this_process, trio, trio_data
from tiny_sets import write_tiny_sets
from train_toy import said, shown_by, until

from gradaccord.reproduce import entry as entry_module
from gradaccord.reproduce.entry import all_entries

__all__ = ["trio", "trio_data"]


@pytest.fixture
def with_trio(monkeypatch, tmp_path):
    """The entry of the tests among those of the library."""
    folder = tmp_path / "entries"
    shutil.copytree(entry_module.FOLDER, folder)
    shutil.copy(ENTRIES / f"{TRIO}.yaml", folder)
    monkeypatch.setattr(all_entries, "__defaults__", (folder,))


def test_absent_data_is_named_with_its_publisher(capsys, tmp_path):
    own = ("--results", tmp_path / "results")  # where no run has its record yet
    for where in ((), ("--data", tmp_path)):
        sentence = said(capsys, "reproduce", "controls-sts-encoding", "--small", *where, *own)
        assert "cs224n_minbert/sts-train.csv (Stanford CS224N, default final project" in sentence


def test_an_unknown_name_is_refused_with_the_nearest(capsys):
    assert "did you mean 'minbert-table-2'" in said(capsys, "reproduce", "minbert-table2")


def test_runs_end_with_the_table_and_the_list_knows_them(capsys, with_trio, trio_data, tmp_path):
    results, out = tmp_path / "results", tmp_path / "runs"
    with runs_in_this_process():
        shown = shown_by(
            capsys, "reproduce", TRIO, "--small", "--data", trio_data, "--seeds", 1, "--variant", "two",
            "--only", "plain,pcgrad", "--budget", "epochs", "--results", results, "--out", out,
        )  # fmt: skip
    assert "2 runs, 2 to do" in shown
    assert "two, equal epochs, dev, 1 seed, mean ± standard error" in shown
    assert "published bank" in shown
    assert all(len(line) <= 80 for line in shown.partition("Records:")[2].splitlines()[1:])
    listed = shown_by(capsys, "reproduce", "--list", "--results", results)
    assert "status: measured at small scale (2 of 30 runs)" in listed


def test_a_dry_run_shows_settings_and_times_and_leaves_nothing(capsys, with_trio, trio_data, tmp_path):
    before = set(tmp_path.iterdir())
    shown = shown_by(
        capsys, "reproduce", TRIO, "--small", "--dry-run", "--data", trio_data, "--seeds", 2,
        "--variant", "one", "--only", "pcgrad", "--results", tmp_path / "r", "--out", tmp_path / "o",
    )  # fmt: skip
    assert "arm pcgrad\n  method: pcgrad" in shown
    assert "one, epochs, pcgrad 2 4 0:0" in " ".join(shown.split())
    assert "2 runs, 0:" in shown
    assert set(tmp_path.iterdir()) == before


def test_pages_are_written_below_the_current_folder(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = shown_by(capsys, "reproduce", "--write-docs", "--results", tmp_path / "none")
    assert "Written: docs/results.md" in shown
    assert "0 of " in (tmp_path / "docs" / "results.md").read_text()


def test_after_kill_9_the_same_command_goes_on(command, tmp_path):
    """Records stay, and what was under way is resumed or begun again."""
    data, results = write_tiny_sets(tmp_path / "data", "minbert"), tmp_path / "results"
    name = "controls-sts-encoding"
    arguments = ["reproduce", name, "--small", "--data", data, "--seeds", 1, "--results", results]
    arguments += ["--out", tmp_path / "runs"]
    first, second = (results / name / f"main.{arm}.epochs.s0.json" for arm in ("separate", "cross"))
    killed = command(*arguments)
    until(lambda: first.exists() or killed.poll() is not None)
    killed.kill()
    killed.communicate()
    assert not second.exists()
    record = first.read_bytes()
    out, _ = command(*arguments).done()
    assert "2 runs, 1 to do" in out
    assert first.read_bytes() == record
    assert second.exists()
    assert "* cross" in out
