"""Processes of one run go on together or not at all; the end of one ends the others in a sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from scenarios import WORLD
from train_scenarios import prepare, run

from gradaccord.train.loop import TrainingLoop

WORKER = Path(__file__).parent / "ranks_worker.py"


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """Two processes in a folder that holds an unfinished run of one; what each of them saw."""
    folder = tmp_path_factory.mktemp("ranks")
    file = prepare(folder / "toy") / "sum.json"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TrainingLoop, "take_step", interrupted_at(5))
        assert run(file, folder / "one") == 130
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(WORLD)]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    command += ["--local-addr", "127.0.0.1", str(WORKER), str(folder)]
    ended = subprocess.run(
        command,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (folder / "1.pt").exists(), ended.stdout + ended.stderr
    return folder, [torch.load(folder / f"{rank}.pt") for rank in range(WORLD)]


def interrupted_at(last):
    taken = TrainingLoop.take_step

    def step(loop, log):
        if loop.step == last - 1:
            os.kill(os.getpid(), signal.SIGINT)
        return taken(loop, log)

    return step


def test_a_run_of_one_process_is_not_continued_by_two(launched):
    folder, saw = launched
    for rank in saw:
        code, said, _ = rank["from one"]
        assert code == 2
        assert said == (
            f"gradaccord: The run in {folder / 'one' / 'checkpoints'} was saved by 1 process, and 2 "
            "run here: resume it with the same number, or choose another --out.\n"
        )


def test_a_run_of_two_processes_is_not_continued_by_one(launched, capsys):
    folder, saw = launched
    assert [rank["of two"][0] for rank in saw] == [130, 130]
    assert run(folder / "toy" / "sum.json", folder / "two", "--resume") == 2
    assert "was saved by 2 processes, and 1 runs here" in capsys.readouterr().err


def test_the_end_of_one_process_ends_the_other_with_one_sentence(launched):
    _, (left, died) = launched
    assert "died" not in died
    code, said, seconds = left["died"]
    assert code == 1
    assert said == (
        "gradaccord: Another process of this run has ended, and this one with it: see the other's "
        "message, and continue with --resume.\n"
    )
    assert seconds < 60
