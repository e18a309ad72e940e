"""What the tests of commands start from; see tests/support/train_toy.py."""

import pytest
from train_toy import checkpoint, command, configured, content, files, run, shown_by, written

from gradaccord.train.run import train_run

__all__ = ["checkpoint", "command", "configured", "content", "files", "run", "written"]


@pytest.fixture(scope="session")
def trained(configured, tmp_path_factory):
    """A finished run that has learned its tasks."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train_run(
        configured(train={"steps": 160, "lr": 5e-3, "evaluate_every": 80, "save_every": 160}), folder
    )
    return folder


@pytest.fixture
def exported(trained, tmp_path, capsys):
    """The same, exported."""
    shown_by(capsys, "export", trained, "--out", tmp_path / "exported")
    return tmp_path / "exported"
