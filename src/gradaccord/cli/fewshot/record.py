"""`gradaccord fewshot record`: saves a run's settings, curve and tests in a small file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.exit_codes import user_mistakes
from gradaccord.cli.fewshot.options import MISTAKES, DataDir, RunFolder, load_splits


def record(
    folder: RunFolder,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the records are kept.")] = Path(
        "results/fewshot"
    ),
    data_dir: DataDir = None,
    shots: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Examples of each class to adapt to; may be given several times."),
    ] = None,
    both: Annotated[
        bool, typer.Option("--both", help="Test transductive and non-transductive predictions.")
    ] = False,
    tasks: Annotated[int, typer.Option(min=1, help="Number of fixed test tasks.")] = 600,
    commit: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="Commit that the run started from, if it recorded none."),
    ] = None,
) -> None:
    """Test a run's best checkpoint and save settings, commit, curve and results in a small file.

    [bold]gradaccord fewshot record runs/fewshot/omniglot --shots 1 --shots 5[/bold]
    """
    from gradaccord.meta.records import record_run
    from gradaccord.meta.saved_runs import seed_folders
    from gradaccord.meta.settings import FewShotSettings

    with user_mistakes(*MISTAKES):
        for place in seed_folders(folder):
            splits = load_splits(FewShotSettings.read(place), data_dir)
            modes = [False, True] if both else []
            found = record_run(
                place, splits, shots=shots or [], modes=modes, tasks=tasks, commit=commit
            )
            print(f"Written: {found.save(out)}")
