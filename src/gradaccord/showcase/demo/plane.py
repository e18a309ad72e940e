"""The first part of the demo: three optima on a plane, and who falls into one."""

from __future__ import annotations

from gradaccord.runs.files import write_atomic
from gradaccord.showcase.demo.settings import Settings
from gradaccord.showcase.landscape.figure import figure_of
from gradaccord.showcase.landscape.runs import Progress, Result, run
from gradaccord.showcase.landscape.runs import Settings as Lengths

FOLDER = "landscape"
PICTURE = "landscape.png"
SEEDS = 16
DOTS = 80  # an inch; enough for a screen


def landscape(settings: Settings, progress: Progress) -> Result:
    """Run it, unless results of these lengths and the figure are there already."""
    folder = settings.out / FOLDER
    steps = settings.shortened(Lengths.steps)
    outer_steps = settings.shortened(Lengths.outer_steps)
    if Result.exists(folder) and (folder / PICTURE).exists():
        found = Result.read(folder)
        if found.settings == Lengths(SEEDS, steps, outer_steps):
            return found
    result = run(SEEDS, steps=steps, outer_steps=outer_steps, progress=progress)
    folder.mkdir(parents=True, exist_ok=True)
    picture = figure_of(result)
    write_atomic(folder / PICTURE, lambda file: picture.savefig(file, format="png", dpi=DOTS))
    result.write(folder)
    return result
