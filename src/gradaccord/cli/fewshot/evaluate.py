"""`gradaccord fewshot eval`: tests the best checkpoint of a run again."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gradaccord.cli.exit_codes import user_mistakes
from gradaccord.cli.fewshot.options import MISTAKES, DataDir, RunFolder, load_splits


def evaluate_run(
    folder: RunFolder,
    data_dir: DataDir = None,
    tasks: Annotated[int, typer.Option(min=1, metavar="N", help="Number of fixed test tasks.")] = 600,
    shots: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Examples of each class; default: as in the run."),
    ] = None,
    queries: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Queries of each class.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Inner steps; more than in training is allowed."),
    ] = None,
    transductive: Annotated[
        bool,
        typer.Option(
            "--transductive/--non-transductive",
            help="Queries share batch statistics: easier, and not comparable with the default.",
        ),
    ] = False,
    by_step: Annotated[
        bool, typer.Option("--by-step", help="Also print the accuracy after every inner step.")
    ] = False,
    ensemble: Annotated[
        bool,
        typer.Option("--ensemble", help="Also test the ensemble of the best checkpoints."),
    ] = False,
) -> None:
    """Test the best checkpoint of a run again: more tasks, other shots or steps, transductive or not.

    [bold]gradaccord fewshot eval runs/fewshot/glyphs --steps 10 --by-step[/bold]
    """
    from gradaccord.meta.evaluation import evaluate, evaluate_ensemble
    from gradaccord.meta.saved_runs import Trained, seed_folders
    from gradaccord.meta.settings import FewShotSettings

    with user_mistakes(*MISTAKES):
        places = seed_folders(folder)
        settings = FewShotSettings.read(places[0])
        settings = settings.changed(shots=shots, test_queries=queries)
        splits = load_splits(settings, data_dir)
        options: dict[str, Any] = {
            "steps": settings.evaluation_steps if steps is None else steps,
            "transductive": transductive,
        }
        for place in places:
            trained = Trained(place, splits, settings)
            fixed = trained.test_tasks(tasks)
            found = evaluate(trained.learner, fixed, by_step=by_step, **options)
            print(f"{place.name}  {settings.ways}-way {settings.shots}-shot  {found}")
            if by_step:
                values = zip(found.by_step, found.interval_by_step, strict=True)
                for step, (value, interval) in enumerate(values):
                    print(f"  after {step:2} steps  {value:6.2f} % ± {interval:.2f}")
            if ensemble:
                joined = evaluate_ensemble(trained.learner, trained.states, fixed, **options)
                print(f"{place.name}  {joined}")
