"""The first part of the demo: three optima on a plane, and which methods fall into one."""

from __future__ import annotations

from gradaccord.runs.files import write_atomic
from gradaccord.showcase.demo.settings import DemoSettings
from gradaccord.showcase.landscape.figure import figure_of
from gradaccord.showcase.landscape.runs import LandscapeSettings, Progress, Result, run

FOLDER = "landscape"
PICTURE = "landscape.png"
SEEDS = 16
DOTS = 80  # per inch; enough for a screen


def landscape(settings: DemoSettings, progress: Progress) -> Result:
    """Run the landscape, unless results with these settings and their figure are there already."""
    folder = settings.out / FOLDER
    steps = settings.shortened(LandscapeSettings.steps)
    outer_steps = settings.shortened(LandscapeSettings.outer_steps)
    if Result.exists(folder) and (folder / PICTURE).exists():
        found = Result.read(folder)
        if found.settings == LandscapeSettings(SEEDS, steps, outer_steps):
            return found
    result = run(SEEDS, steps=steps, outer_steps=outer_steps, progress=progress)
    folder.mkdir(parents=True, exist_ok=True)
    picture = figure_of(result)
    write_atomic(folder / PICTURE, lambda file: picture.savefig(file, format="png", dpi=DOTS))
    result.write(folder)
    return result
