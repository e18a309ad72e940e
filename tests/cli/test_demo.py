"""`gradaccord demo`: all four parts, and a second call that reuses them."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from gradaccord.cli.demo_screen import NEXT
from gradaccord.data.text import cldr


def gradaccord(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GRADACCORD_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "gradaccord", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], str]:
    """All four parts, very short: the folder, the command and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    command = ["demo", "--fast", "--seeds", "1", "--gradients", "24", "--methods", "pcgrad"]
    command += ["--out", str(folder / "out")]
    done = gradaccord(folder, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return folder, command, done.stdout


def test_the_whole_demo_through_the_command_line(small: tuple[Path, list[str], str]) -> None:
    folder, _, said = small
    out = folder / "out"
    *_, picture, heading, first, second, third = said.rstrip().splitlines()
    assert picture == f"The report: {out / 'report.html'}"
    assert heading == "Next, with your own files:"
    assert (first.strip(), second.strip(), third.strip()) == NEXT
    found = said.split("What was found:\n")[1].splitlines()
    begins = [" ".join(line.split()[:2]) for line in found[:4]]
    assert begins == ["On the", "On unseen", "In a", "On the"]
    assert "a preview, not a result" in found[4]
    page = (out / "report.html").read_text(encoding="utf-8")
    titles = ("Three optima on a plane", "A valley of two tasks", "Characters from one picture each")
    for expected in (*titles, found[0]):
        assert expected.replace("'", "&#39;") in page
    assert page.count("data:image/png;base64,") == 4
    results = json.loads((out / "pcgrad/seed-0/results.json").read_text(encoding="utf-8"))
    assert set(results["trained"]) == set(cldr.LANGUAGES)
    assert {"fr", "zu"} <= set(results["test"])
    assert results["cost"]["gradients"] == 24
    masked = results["evaluations"][-1]["masked_lm"]
    assert {"de", "fr"} <= set(masked)
    # Every number is measured: the accuracy in the table is the mean over the runs' own.
    mean = statistics.fmean(results["test"][t]["accuracy"] for t in results["trained"])
    assert re.search(rf"pcgrad +{mean:.1f} ", said)


def test_a_second_call_reuses_what_is_finished(small: tuple[Path, list[str], str]) -> None:
    folder, command, said = small
    finished = [*(folder / "out").rglob("results.json")]
    assert len(finished) == 5  # the plane, the valley, two runs on the names, the characters
    before = {path: path.stat().st_mtime_ns for path in finished}
    again = gradaccord(folder, *command)
    assert again.returncode == 0, again.stdout + again.stderr
    assert {path: path.stat().st_mtime_ns for path in finished} == before
    assert again.stdout.split("What was found:")[1] == said.split("What was found:")[1]
