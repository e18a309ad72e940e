"""`gradaccord sweep`: what it refuses."""

import pytest
from train_toy import said


def test_a_damaged_study_is_one_sentence(file, tmp_path, capsys):
    pytest.importorskip("optuna")
    (tmp_path / "sweep.db").write_text("this is no database, and long enough to be read as one\n" * 99)
    wrong = said(capsys, "sweep", file, "train.lr=1e-4..1e-2", "--out", tmp_path)
    assert f"{tmp_path / 'sweep.db'} holds no sweep, or is damaged: " in wrong
