"""A run folder has one process at a time."""

import subprocess
import sys

import pytest

from gradaccord.runs.files import RunFolderError
from gradaccord.runs.lock import locked


def test_a_second_process_is_refused(tmp_path):
    code = (
        "import sys; from pathlib import Path; from gradaccord.runs.lock import locked\n"
        "try:\n  with locked(Path(sys.argv[1])): print('held')\n"
        "except OSError as error: print(error)"
    )
    with locked(tmp_path):
        done = subprocess.run(
            [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True
        )
    assert "is in use by another process" in done.stdout
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "held"


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="cannot be written to"), locked(tmp_path / "file" / "run"):
        pass


def test_the_same_process_cannot_lock_twice_and_an_error_unlocks(tmp_path):
    with (
        pytest.raises(RunFolderError, match="is in use by another process"),
        locked(tmp_path),
        locked(tmp_path),
    ):
        pass
    with locked(tmp_path):
        pass
