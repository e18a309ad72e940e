"""`gradaccord doctor`: what is installed, and DotProd on a model."""

import pytest
import torch
from train_toy import shown_by

from gradaccord.cli.app import main


def test_doctor_says_what_is_there(capsys, checkpoint):
    shown = shown_by(capsys, "doctor", "--model", checkpoint)
    assert f"torch {torch.__version__}" in shown
    assert "threads of" in shown
    assert f"DotProd on {checkpoint}, automatic step" in shown
    assert "the paper's step 1e-7" in shown


def test_doctor_knows_no_such_model(capsys, tmp_path):
    with pytest.raises(SystemExit) as end:
        main(["doctor", "--model", str(tmp_path / "none")])
    assert end.value.code == 2
    assert "none" in capsys.readouterr().err
