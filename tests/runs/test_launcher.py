"""How many processes run, and that it is said where a launcher was asked for more."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from trainer_toy import trainer

from gradaccord.runs.launcher import fewer_than_asked

LAUNCHED = ("ACCELERATE_MIXED_PRECISION", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in LAUNCHED:
        monkeypatch.delenv(name, raising=False)


def test_accelerate_launch_on_a_cpu_starts_one_process_and_it_is_said(written, tmp_path):
    """`--num_processes 2 --cpu` sets an address for the processes to meet at, and starts one."""
    file = written(train={"steps": 1}, probe={"cosine": False})
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "2", "--cpu"]
    ended = subprocess.run(
        [*launch, "-m", "gradaccord", "train", str(file), "--out", str(tmp_path / "run")],
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "COLUMNS": "400"},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    (sentence,) = [line for line in ended.stdout.splitlines() if "accelerate launch" in line]
    assert "asked for several processes and started 1" in sentence
    assert "torchrun --nproc-per-node" in sentence


def test_nothing_is_said_where_all_run(monkeypatch):
    assert fewer_than_asked(1) is None
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")  # accelerate launch --num_processes 1
    assert fewer_than_asked(1) is None
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert fewer_than_asked(2) is None


def test_a_world_that_was_not_joined_is_told_with_both_numbers(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert fewer_than_asked(1) == (
        "WORLD_SIZE asks for 4 processes, and 1 runs here: start them with torchrun --nproc-per-node 4."
    )


def test_a_trainer_warns(monkeypatch, tmp_path):
    made = trainer(tmp_path, max_steps=1)
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    with pytest.warns(UserWarning, match="asked for several processes and started 1"):
        made.train()
