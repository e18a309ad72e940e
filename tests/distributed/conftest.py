"""Launch a worker script on two processes, once for all the tests that look at what it saw."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from launches import TORCHRUN, launched
from scenarios import WORLD

HERE = Path(__file__).parent
ACCELERATE = ["accelerate.commands.launch", "--num_processes", str(WORLD), "--main_process_port", "0"]
ACCELERATE += ["--use_fsdp", "--fsdp_version", "2", "--fsdp_auto_wrap_policy", "NO_WRAP"]
ACCELERATE += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
BY_ACCELERATE = ("sharded_worker.py",)
SECONDS = 400  # far more than a launch takes; what is reached only when the processes hang


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    """The models are too small for more, and the cores may be busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[dict[str, Any]]]:
    """Run a script of this folder under torchrun; returns what each process saved.

    Under pytest-xdist the first worker that needs a script runs it, and the others wait for it.
    """
    base = tmp_path_factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def run(script: str) -> list[dict[str, Any]]:
        folder = root / f"{Path(script).stem}-saw"
        complaint = folder / "complaint.txt"
        with FileLock(root / f"{folder.name}.lock"):
            if not complaint.exists():
                folder.mkdir()
                complaint.write_text(_complaint(script, folder))
        if complaint.read_text():
            pytest.fail(complaint.read_text(), pytrace=False)
        return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(WORLD)]

    return run


def _complaint(script: str, folder: Path) -> str:
    """What went wrong, with the output of all processes; nothing if nothing did."""
    program = ACCELERATE if script in BY_ACCELERATE else TORCHRUN
    command = [sys.executable, "-m", *program, str(HERE / script), str(folder)]

    def fresh(_: int) -> list[str]:
        shutil.rmtree(folder)
        folder.mkdir()
        return command

    ended = launched(fresh, SECONDS)
    return f"{script} failed:\n{ended.stdout}" if ended.returncode else ""
