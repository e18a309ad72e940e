"""`gradaccord export`: a folder that Hugging Face reads, with a card."""

import pytest
from train_toy import said

from gradaccord.tasks.kinds.image import ImageClassification


def test_export_refuses_what_it_cannot_do(exported, trained, tmp_path, capsys):
    full = said(capsys, "export", trained, "--out", exported)
    assert "is not empty: choose another --out" in full
    none = said(capsys, "export", tmp_path, "--out", tmp_path / "out")
    assert "is not a run" in none
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "config.yaml").write_text("")
    begun = said(capsys, "export", tmp_path / "begun", "--out", tmp_path / "out")
    assert "has not finished" in begun
    assert not (tmp_path / "out").exists()


def test_numbers_of_a_model_are_no_code(tmp_path):
    task = ImageClassification(("a", "b"))
    with pytest.raises(ValueError, match="size"):
        task.sample_code({"size": "1)); import os; os.system('x"})
