"""`gradaccord fewshot figures`: draws the validation curves of several runs in one figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.exit_codes import needs, user_mistakes
from gradaccord.cli.fewshot.options import MISTAKES


@needs("report")
def figures(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of runs to compare.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The file to write; its suffix gives the format.")
    ] = Path("validation.png"),
) -> None:
    """Draw the validation curves of several runs into one figure, with bands over their seeds.

    [bold]gradaccord fewshot figures runs/fewshot/* --out curves.png[/bold]
    """
    from gradaccord.meta.figures import validation_figure, write
    from gradaccord.meta.run import validation_curve
    from gradaccord.meta.saved_runs import seed_folders
    from gradaccord.meta.settings import FewShotSettings

    with user_mistakes(*MISTAKES):
        runs, ways = {}, set()
        for folder in folders:
            places = seed_folders(folder)
            settings = FewShotSettings.read(places[0])
            label = settings.label if settings.label not in runs else folder.name
            runs[label] = [validation_curve(place) for place in places]
            ways.add(settings.ways)
        chance = 100 / ways.pop() if len(ways) == 1 else None
        print(f"Written: {write(validation_figure(runs, chance=chance), out)}")
