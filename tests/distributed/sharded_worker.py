"""One of two processes started by `accelerate launch --use_fsdp`: all that is trained under FSDP2."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from scenarios import whole
from train_scenarios import SHARDED, interrupted, prepared_once, run
from train_toy import weights

from gradaccord.train.loop import TrainingLoop

RANK = int(os.environ["RANK"])


def main(folder: Path) -> None:
    saw = prepared_once(folder, RANK == 0)
    commands(folder, saw)
    saw["trainer"] = trainers(folder / "trainer")
    torch.save(saw, folder / f"{RANK}.pt")
    torch.distributed.barrier()
    saw["failed"] = failed(folder)  # after which the processes cannot meet any more
    torch.save(saw, folder / f"{RANK}.pt")
    sys.stdout.flush()
    os._exit(0)


def commands(folder: Path, saw: dict[str, Any]) -> None:
    """`gradaccord train`, by the environment of the launcher alone."""
    file = folder / "toy" / f"{SHARDED}.json"
    with sharded_parts() as parts:
        saw["codes"]["sharded"] = run(file, folder / "sharded")
    saw["part"] = parts
    saw["codes"]["interrupted"] = interrupted(file, folder / "again", RANK == 1)
    torch.distributed.barrier()
    saw["codes"]["resumed"] = run(file, folder / "again", "--resume")
    for name in ("sharded", "again"):
        saw["weights"][name] = weights(folder / name)  # whole in the first process's file alone
    saw["model"] = str(folder / "sharded" / "model")
    from accelerate import PartialState

    saw["Accelerate's words"] = str(PartialState().distributed_type)


@contextmanager
def sharded_parts() -> Iterator[list[float]]:
    """Which share of the numbers that are trained this process holds, looked at in every step."""
    taken, parts = TrainingLoop.take_step, []

    def step(loop: TrainingLoop, log: Any) -> int:
        tensors = list(loop.model.parameters())
        own = sum(t.to_local().numel() for t in tensors)
        parts.append(own / sum(t.numel() for t in tensors))
        return taken(loop, log)

    TrainingLoop.take_step = step  # type: ignore[method-assign]
    yield parts
    TrainingLoop.take_step = taken  # type: ignore[method-assign]


def failed(folder: Path) -> tuple[int, str, float]:
    """A loss that raises on the second process alone: the exit code, what was said, the seconds."""
    taken = TrainingLoop.calls

    def calls(loop: TrainingLoop, drawn: Any) -> Any:
        made = taken(loop, drawn)
        return [lambda: 1 / 0] if RANK == 1 and loop.step == 2 else made

    TrainingLoop.calls = calls  # type: ignore[method-assign]
    began = time.monotonic()
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            code = run(folder / "toy" / f"{SHARDED}.json", folder / "failed")
        except ZeroDivisionError:
            os._exit(0)  # its connections break, as they do where it ends in an error
    return code, said.getvalue(), time.monotonic() - began


def trainers(folder: Path) -> dict[str, Any]:
    """AlignedTrainer with its plugin, which Accelerate takes up on a GPU only: it is told to here."""
    from trainer_scenarios import EVALUATED, PLUGIN, SHARDED_SCENARIOS, sharding, train

    found: dict[str, Any] = {}
    for name in SHARDED_SCENARIOS:
        place = folder / name.replace(" ", "-")
        options = EVALUATED | {"fsdp": True, "fsdp_config": PLUGIN}
        with sharding():
            found[name] = seen(train(name, place, size=2, **options))
            train(name, place, size=2, stop=6, **options)
            found[f"{name}, resumed"] = seen(train(name, place, size=2, resume=True, **options))
    return found


def seen(made: Any) -> Any:
    found = {name: whole(tensor) for name, tensor in made.model.named_parameters()}
    losses = [entry["loss"] for entry in made.state.log_history if "loss" in entry]
    return found, losses, made.state.log_history


if __name__ == "__main__":
    main(Path(sys.argv[1]))
