"""Runs of `gradaccord train` that one process and two must agree on."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from small_models import save_checkpoint
from train_toy import content_of, without_dropout, write_files

from gradaccord.cli.app import main
from gradaccord.train.loop import TrainingLoop

METHODS: dict[str, Any] = {
    "sum": "sum",
    "adamw": "sum",
    "pcgrad": "pcgrad",
    "dotprod": {"name": "dotprod", "mode": "exact"},
    "sequential_reptile": {"name": "sequential_reptile", "inner_steps": 3, "outer_lr": 0.5},
}
BROKEN = "pcgrad"  # the run that is interrupted and resumed
SHARDED = "adamw"  # the run under FSDP2


def prepare(folder: Path) -> Path:
    """A checkpoint, data, and a configuration for every method below a folder."""
    folder.mkdir()
    (folder / "data").mkdir()
    checkpoint = without_dropout(save_checkpoint(folder / "random", "bert"), folder / "model")
    content = content_of(checkpoint, write_files(folder / "data"), dropout=0.0)
    for name, method in METHODS.items():
        optimizer = {"optimizer": "adamw"} if name == "adamw" else {"optimizer": "sgd", "lr": 0.1}
        train = {**content["train"], "steps": 8, "evaluate_every": 4, **optimizer}
        text = json.dumps({**content, "method": method, "train": train})
        (folder / f"{name}.json").write_text(text)
    return folder


def prepared_once(folder: Path, first: bool) -> dict[str, Any]:
    """What every process begins with: files made by the first one, and a record of what it saw."""
    warnings.filterwarnings("error", module="gradaccord")
    if first:
        prepare(folder / "toy")
        (folder / "prepared").touch()
    while not (folder / "prepared").exists():
        time.sleep(0.05)
    return {"toy": str(folder / "toy"), "codes": {}, "weights": {}}


def interrupted(file: Path, out: Path, here: bool) -> int:
    """Ctrl-C that reaches one process alone, in the middle of a step. here: this is that process."""
    taken = TrainingLoop.take_step

    def step(loop: TrainingLoop, log: Any) -> int:
        if here and loop.step == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return taken(loop, log)

    TrainingLoop.take_step = step  # type: ignore[method-assign]
    code = run(file, out)
    TrainingLoop.take_step = taken  # type: ignore[method-assign]
    return code


def run(file: Path, out: Path, *options: str) -> int:
    """`gradaccord train` in this process; its exit code."""
    try:
        main(["train", str(file), "--out", str(out), *options])
    except SystemExit as end:
        return int(end.code or 0)
    raise AssertionError("main always exits")
