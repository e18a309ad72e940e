"""Two kills of a run, and that a difference would be found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forked to be killed")
SCRIPT = Path(__file__).with_name("run_kills.py")


def test_a_run_that_is_killed_twice_ends_bit_equal():
    done = subprocess.run(
        [sys.executable, SCRIPT, "2", "--only", "train pcgrad"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("2 of 2 kills ended bit-equal.\n")


def test_every_method_and_few_shot_learner_has_a_chain(tmp_path):
    from kills_chains import chains

    from gradaccord.meta.algorithms import ALGORITHMS
    from gradaccord.methods.registry import ADDITIONS, NAMES

    names = {f"train {name}" for name in NAMES} | {f"fewshot {name}" for name in ALGORITHMS}
    names |= {f"train sum+{name}" for name in ADDITIONS} | {"sweep", "compare"}
    assert chains(tmp_path).keys() >= names


@pytest.fixture
def runs(tmp_path):
    """Two equal runs as far as they are compared, of which one took longer."""
    from gradaccord.runs.checkpoints import Checkpoints
    from gradaccord.runs.files import write_json

    for name, seconds in (("whole", 1.0), ("killed", 2.0)):
        folder = tmp_path / name
        state = {"model": {"w": torch.tensor([0.5, 2.0])}, "seconds": seconds}
        Checkpoints(folder / "checkpoints").save(2, state)
        write_json(folder / "results.json", {"dev": {"a": 1.0}, "cost": {"seconds": seconds}})
        lines = [json.dumps({"step": step, "loss": 1 / step, "seconds": seconds}) for step in (1, 2, 3)]
        (folder / "log.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path / "killed", tmp_path / "whole"


def test_equal_runs_are_equal(runs):
    from kills_differences import differences, log_faults

    assert differences(*runs) == []
    assert log_faults(*runs) == []
    (runs[0] / "log.jsonl").write_text(
        (runs[0] / "log.jsonl").read_text()[:-20]
    )  # after the checkpoint
    assert log_faults(*runs) == []


def test_every_kind_of_difference_is_found(runs):
    from kills_differences import differences, log_faults

    from gradaccord.runs.checkpoints import Checkpoints
    from gradaccord.runs.files import write_json

    killed, _ = runs
    whole_log = (killed / "log.jsonl").read_text()
    (killed / "left.tmp").write_text("")
    write_json(killed / "results.json", {"dev": {"a": 1.0 + 2**-52}, "cost": {"seconds": 2.0}})
    (killed / "log.jsonl").write_text(whole_log.replace("0.5", "0.25"))
    state = {"model": {"w": torch.tensor([0.5, 2.0]).nextafter(torch.tensor(9.0))}, "seconds": 2.0}
    Checkpoints(killed / "checkpoints").save(2, state)
    assert differences(*runs) == [
        "left.tmp is there in one alone",
        "checkpoints/step-00000002/state-0.pt differs",
        "log.jsonl differs",
        "results.json differs",
    ]
    for hole in ("", whole_log.splitlines(keepends=True)[0], whole_log.splitlines(True)[1] * 2):
        (killed / "log.jsonl").write_text(hole + whole_log.splitlines(keepends=True)[2])
        assert log_faults(*runs) == ["the log . is not whole up to step-00000002"]
    (killed / "checkpoints" / "step-00000002" / "state-0.pt").write_bytes(b"half")
    assert "is damaged" in log_faults(*runs)[0]
