"""One of two processes of AlignedTrainer: trains every scenario and saves what it saw for the tests."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from scenarios import leave

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from trainer_scenarios import SCENARIOS, train, weights


def main(folder: Path) -> None:
    warnings.filterwarnings("error", module="gradaccord")
    saw: dict[str, Any] = {}
    for name in SCENARIOS:
        saw[name] = train(name, folder / name.replace(" ", "-"), size=2)
    broken = folder / "broken"
    train("GradVac", broken, size=2, stop=6)
    made = train("GradVac", broken, size=2, resume=True)
    saw["resumed"] = made
    rank = int(torch.distributed.get_rank())
    torch.save({name: (weights(t.model), losses(t)) for name, t in saw.items()}, folder / f"{rank}.pt")
    leave()


def losses(made: Any) -> list[float]:
    return [entry["loss"] for entry in made.state.log_history if "loss" in entry]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
