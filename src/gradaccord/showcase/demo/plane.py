"""The first part of the demo: three optima on a plane, and who falls into one."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class Plane:
    """What `gradaccord landscape` found."""

    findings: list[str]
    trapped: dict[str, float]  # method -> share of its runs that end in a task's own optimum


def landscape(settings: Settings, progress: Progress) -> Plane:
    """Run it, unless its results are there already."""
    folder = settings.out / FOLDER
    steps = settings.shortened(Lengths.steps)
    outer_steps = settings.shortened(Lengths.outer_steps)
    lengths = {"seeds": SEEDS, "steps": steps, "outer_steps": outer_steps}
    if not _has_results(folder, lengths):
        result = run(SEEDS, steps=steps, outer_steps=outer_steps, progress=progress)
        folder.mkdir(parents=True, exist_ok=True)
        figure_of(result).savefig(folder / PICTURE, dpi=DOTS)
        result.save(folder)
    return read_plane(read_json(folder / "results.json"))


def read_plane(results: dict[str, Any]) -> Plane:
    """From the results as they are written; shares are means over all starts."""
    shares: dict[str, list[float]] = {}
    for row in results["rows"]:
        shares.setdefault(row["method"], []).append(sum(row["trapped"].values()))
    means = {method: sum(own) / len(own) for method, own in shares.items()}
    return Plane(results["findings"], means)


def _has_results(folder: Path, lengths: dict[str, int]) -> bool:
    """Whether results of these lengths were written, and the figure."""
    if not (folder / "results.json").exists() or not (folder / PICTURE).exists():
        return False
    settings = read_json(folder / "results.json")["settings"]
    return all(settings[name] == value for name, value in lengths.items())
