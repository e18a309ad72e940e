"""A run folder has one process at a time."""

import os
import subprocess
import sys
import time

import pytest
from accelerate import Accelerator

from gradaccord.runs.files import RunFolderError
from gradaccord.runs.lock import locked, locked_by_main


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


@pytest.mark.parametrize(
    ("parent", "ends"), [(os.getpid(), "held"), (1, "is in use by")], ids=["ours", "other"]
)
def test_a_run_of_a_comparison_waits_for_the_one_that_a_killed_command_left(tmp_path, parent, ends):
    """It would count as failed otherwise. One whose own command has gone does not wait."""
    code = (
        "import sys; from pathlib import Path; from gradaccord.runs.lock import locked\n"
        "print('ready', flush=True)\n"
        "try:\n  with locked(Path(sys.argv[1])): print('held')\n"
        "except OSError as error: print(error)"
    )
    with locked(tmp_path):
        process = subprocess.Popen(
            [sys.executable, "-c", code, tmp_path],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "GRADACCORD_PARENT": str(parent)},
        )
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
    with process:
        assert ends in process.stdout.read()


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


def test_what_the_main_process_finds_or_raises_comes_out(tmp_path):
    accelerator = Accelerator(cpu=True)
    with locked_by_main(tmp_path, accelerator, lambda: 7) as found:
        assert found == 7
        with pytest.raises(RunFolderError, match="in use"), locked(tmp_path):
            pass
    with (
        pytest.raises(ValueError, match="base 10"),
        locked_by_main(tmp_path, accelerator, lambda: int("x")),
    ):
        pass
    with locked(tmp_path):
        pass
