"""Launch a worker script on two processes, once for all the tests that look at what it saw."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from scenarios import WORLD

HERE = Path(__file__).parent
SECONDS = 120  # far more than a launch takes; what is reached only when the processes hang


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    """The models are too small for more, and the cores may be busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[dict[str, Any]]]:
    """Run a script of this folder under torchrun; returns what each process saved."""

    def run(script: str) -> list[dict[str, Any]]:
        folder = tmp_path_factory.mktemp("workers")
        command = [sys.executable, "-m", "torch.distributed.run", "--rdzv-backend", "c10d"]
        command += ["--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"]
        command += ["--nproc-per-node", str(WORLD), str(HERE / script), str(folder)]
        process = subprocess.Popen(
            command,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            pytest.fail(f"{script} hangs:\n{process.communicate()[0]}", pytrace=False)
        if process.returncode:
            pytest.fail(f"{script} failed:\n{output}", pytrace=False)
        return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(WORLD)]

    return run
