"""One of two processes: a run of one process is refused, one is left for one process, and one dies."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from train_scenarios import run

from gradaccord.train.loop import TrainingLoop

RANK = int(os.environ["RANK"])


def main(folder: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # by which torchrun ends the one that is left
    file = folder / "toy" / "sum.json"
    saw: dict[str, Any] = {"from one": told(file, folder / "one", "--resume")}
    saw["of two"] = at_step_5(lambda: os.kill(os.getpid(), signal.SIGINT), file, folder / "two")
    torch.save(saw, folder / f"{RANK}.pt")
    torch.distributed.barrier()
    saw["died"] = at_step_5(lambda: os.kill(os.getpid(), signal.SIGKILL), file, folder / "dead")
    torch.save(saw, folder / f"{RANK}.pt")
    os._exit(0)


def told(file: Path, out: Path, *options: str) -> tuple[int, str, float]:
    """The exit code of a command, what it said on stderr, and the seconds it took."""
    began = time.monotonic()
    with contextlib.redirect_stderr(io.StringIO()) as said:
        code = run(file, out, *options)
    return code, said.getvalue(), time.monotonic() - began


def at_step_5(act: Any, file: Path, out: Path) -> tuple[int, str, float]:
    """The command with something that happens to the second process in the fifth step."""
    taken = TrainingLoop.take_step

    def step(loop: TrainingLoop, log: Any) -> int:
        if RANK == 1 and loop.step == 4:
            act()
        return taken(loop, log)

    TrainingLoop.take_step = step  # type: ignore[method-assign]
    try:
        return told(file, out)
    finally:
        TrainingLoop.take_step = taken  # type: ignore[method-assign]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
