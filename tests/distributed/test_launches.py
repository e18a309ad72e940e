"""A launch that torch aborts is made once more, and no other."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from launches import launched

PROGRAM = """
import sys
from pathlib import Path
attempts = Path(sys.argv[1])
attempts.write_text(attempts.read_text() + sys.argv[2])
print(sys.argv[3])
sys.exit(1)
"""


@pytest.mark.parametrize(("said", "attempts"), [("failed (exitcode: -6)", "01"), ("exitcode: 1", "0")])
@pytest.mark.filterwarnings("ignore:A process was aborted")
def test_only_an_abort_is_repeated(said: str, attempts: str, tmp_path: Path) -> None:
    made = tmp_path / "attempts"
    made.touch()
    ended = launched(lambda i: [sys.executable, "-c", PROGRAM, str(made), str(i), said], seconds=60)
    assert ended.returncode == 1
    assert said in ended.stdout
    assert made.read_text() == attempts


def test_a_launch_that_hangs_is_ended(tmp_path: Path) -> None:
    ended = launched(lambda _: [sys.executable, "-c", "import time; time.sleep(60)"], seconds=1)
    assert ended.returncode != 0
    assert ended.stdout.startswith("It hangs.")
