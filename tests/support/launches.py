"""Programs on several processes, which torch itself aborts once in a while."""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Callable, Sequence

ABORTED = "exitcode: -6"  # what torchrun says of a process that ended by SIGABRT

TORCHRUN = ("torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d")
TORCHRUN += ("--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1")


def launched(
    command: Callable[[int], Sequence[str]], seconds: float
) -> subprocess.CompletedProcess[str]:
    """The end of a launch, with all that its processes printed.

    Threads of gloo abort a process of torch 2.13 once in some ten to hundred launches, with plain DDP
    as well. A launch that ended so is made once more; whatever else goes wrong is what it is.

    command: the program of the first and of the second launch, which want folders of their own.
    seconds: far more than a launch takes; reached only when the processes hang.
    """
    ended = _launched(command(0), seconds)
    if ended.returncode and ABORTED in ended.stdout:
        warnings.warn(f"A process was aborted:\n{ended.stdout}", stacklevel=2)
        ended = _launched(command(1), seconds)
    return ended


def _launched(command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    process = subprocess.Popen(
        command,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()  # torchrun ends its processes
        output = f"It hangs.\n{process.communicate()[0]}"
    return subprocess.CompletedProcess(command, process.returncode, output)
