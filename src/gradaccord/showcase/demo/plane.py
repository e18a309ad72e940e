"""The first part of the demo: three optima on a plane, and who falls into one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradaccord.runs.files import read_json
from gradaccord.showcase.demo.settings import Settings
from gradaccord.showcase.landscape.figure import figure_of
from gradaccord.showcase.landscape.runs import Progress, run
from gradaccord.showcase.landscape.runs import Settings as Lengths

FOLDER = "landscape"
PICTURE = "landscape.png"
SEEDS = 16
DOTS = 80  # an inch; enough for a screen


def landscape(settings: Settings, progress: Progress) -> dict[str, Any]:
    """What `gradaccord landscape` writes as results; read again if it is there already."""
    folder = settings.out / FOLDER
    steps = settings.shortened(Lengths.steps)
    outer_steps = settings.shortened(Lengths.outer_steps)
    found = _written_before(folder, {"seeds": SEEDS, "steps": steps, "outer_steps": outer_steps})
    if found is not None:
        return found
    result = run(SEEDS, steps=steps, outer_steps=outer_steps, progress=progress)
    folder.mkdir(parents=True, exist_ok=True)
    figure_of(result).savefig(folder / PICTURE, dpi=DOTS)
    written: dict[str, Any] = read_json(result.save(folder))
    return written


def _written_before(folder: Path, lengths: dict[str, int]) -> dict[str, Any] | None:
    """The results of the same lengths, if all was written."""
    if not (folder / "results.json").exists() or not (folder / PICTURE).exists():
        return None
    found: dict[str, Any] = read_json(folder / "results.json")
    same = all(found["settings"][name] == value for name, value in lengths.items())
    return found if same else None


def trapped(results: dict[str, Any]) -> dict[str, float]:
    """Method -> share of its runs, over all starts, that end in a task's own optimum."""
    shares: dict[str, list[float]] = {}
    for row in results["rows"]:
        shares.setdefault(row["method"], []).append(sum(row["trapped"].values()))
    return {method: sum(own) / len(own) for method, own in shares.items()}
