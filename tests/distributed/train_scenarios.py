"""Runs of `gradaccord train` that one process and two must agree on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from small_models import save_checkpoint
from train_toy import content_of, without_dropout, write_files

from gradaccord.cli.app import main

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


def run(file: Path, out: Path, *options: str) -> int:
    """`gradaccord train` in this process; its exit code."""
    try:
        main(["train", str(file), "--out", str(out), *options])
    except SystemExit as end:
        return int(end.code or 0)
    raise AssertionError("main always exits")
