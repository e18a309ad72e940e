"""One of two processes of `gradaccord train`: every method, one interrupted and resumed, all saved."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from scenarios import leave
from train_scenarios import BROKEN, METHODS, SHARDED, prepare, run
from train_toy import weights

from gradaccord.train import run as runs
from gradaccord.train.loop import TrainingLoop

RANK = int(os.environ["RANK"])


def main(folder: Path) -> None:
    warnings.filterwarnings("error", module="gradaccord")
    if RANK == 0:
        prepare(folder / "toy")
        (folder / "prepared").touch()
    while not (folder / "prepared").exists():
        time.sleep(0.05)
    saw: dict[str, Any] = {"toy": str(folder / "toy"), "codes": {}, "weights": {}}
    for name in METHODS:
        saw["codes"][name] = run(folder / "toy" / f"{name}.json", folder / name)
        saw["weights"][name] = weights(folder / name, RANK)
    file, broken = folder / "toy" / f"{BROKEN}.json", folder / "broken"
    saw["codes"]["interrupted"] = interrupted(file, broken)
    saw["saved"] = [path.name for path in (broken / "checkpoints").iterdir()]
    torch.distributed.barrier()
    saw["codes"]["resumed"] = run(file, broken, "--resume")
    saw["weights"]["resumed"] = weights(broken, RANK)
    saw["codes"]["finished"] = run(file, broken, "--resume")
    saw["codes"]["refused"] = run(file, broken)
    file = folder / "toy" / f"{SHARDED}.json"
    with sharding():
        saw["codes"]["sharded"] = run(file, folder / "sharded")
        saw["codes"]["sharded, interrupted"] = interrupted(file, folder / "again")
        torch.distributed.barrier()
        saw["codes"]["sharded, resumed"] = run(file, folder / "again", "--resume")
    for name in ("sharded", "again"):
        saw["weights"][name] = weights(folder / name)  # whole in the first process's file alone
    saw["model"] = str(folder / "sharded" / "model")
    torch.save(saw, folder / f"{RANK}.pt")
    leave()


@contextmanager
def sharding() -> Iterator[None]:
    """FSDP2 by Accelerate, which it takes up on a GPU only: it is told to on this CPU."""
    from accelerate.state import PartialState
    from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

    made = runs.make_accelerator

    def told(*arguments: Any) -> Any:
        accelerator = made(*arguments)
        accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin(
            fsdp_version=2, auto_wrap_policy="no_wrap", cpu_ram_efficient_loading=False
        )
        accelerator.state.distributed_type = DistributedType.FSDP
        PartialState._shared_state["distributed_type"] = DistributedType.FSDP
        return accelerator

    runs.make_accelerator = told
    yield
    runs.make_accelerator = made


def interrupted(file: Path, out: Path) -> int:
    """Ctrl-C that reaches the second process alone, in the middle of a step."""
    taken = TrainingLoop.take_step

    def step(loop: TrainingLoop, log: Any) -> int:
        if RANK == 1 and loop.step == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return taken(loop, log)

    TrainingLoop.take_step = step  # type: ignore[method-assign]
    code = run(file, out)
    TrainingLoop.take_step = taken  # type: ignore[method-assign]
    return code


if __name__ == "__main__":
    main(Path(sys.argv[1]))
