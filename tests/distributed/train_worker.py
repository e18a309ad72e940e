"""One of two processes of `gradaccord train`: every method, one interrupted and resumed, all saved."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from scenarios import leave
from train_scenarios import BROKEN, METHODS, interrupted, prepared_once, run
from train_toy import weights

RANK = int(os.environ["RANK"])


def main(folder: Path) -> None:
    saw = prepared_once(folder, RANK == 0)
    for name in METHODS:
        saw["codes"][name] = run(folder / "toy" / f"{name}.json", folder / name)
        saw["weights"][name] = weights(folder / name, RANK)
    file, broken = folder / "toy" / f"{BROKEN}.json", folder / "broken"
    saw["codes"]["interrupted"] = interrupted(file, broken, RANK == 1)
    saw["saved"] = [path.name for path in (broken / "checkpoints").iterdir()]
    torch.distributed.barrier()
    saw["codes"]["resumed"] = run(file, broken, "--resume")
    saw["weights"]["resumed"] = weights(broken, RANK)
    saw["codes"]["finished"] = run(file, broken, "--resume")
    saw["codes"]["refused"] = run(file, broken)
    torch.save(saw, folder / f"{RANK}.pt")
    leave()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
