"""`gradaccord compare`: what it refuses."""

from compare_toy import runs_without_processes
from train_toy import said

from gradaccord.runs.lock import locked


def test_no_run_that_finishes_is_one_sentence(file, tmp_path, capsys):
    (tmp_path / "all" / "sum" / "seed-0").mkdir(parents=True)
    (tmp_path / "all" / "sum" / "seed-0" / "checkpoints").write_text("in the way")
    with runs_without_processes():
        wrong = said(
            capsys, "compare", file, "--methods", "sum", "--seeds", 1, "--out", tmp_path / "all"
        )
    assert "No run finished: sum seed 0 ended with exit code 2" in wrong


def test_two_comparisons_in_one_folder(file, tmp_path, capsys):
    with locked(tmp_path / "both"):
        wrong = said(capsys, "compare", file, "--methods", "sum", "--out", tmp_path / "both")
    assert f"{tmp_path / 'both'} is in use by another process" in wrong
    assert not (tmp_path / "both" / "sum").exists()
