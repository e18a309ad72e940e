"""What the few-shot commands do, seed by seed: train, test, sum up, evaluate again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from gradaccord.cli.fewshot_screen import progress, results
from gradaccord.data.images.class_splits import ClassSplits, load
from gradaccord.meta.evaluation import evaluate, evaluate_ensemble, mean_and_interval
from gradaccord.meta.run import Run
from gradaccord.meta.saved import Trained, draw_run, read_results, seed_folders
from gradaccord.meta.settings import Settings


def load_data(settings: Settings, data_dir: Path | None) -> ClassSplits:
    """The classes that a run learns and is tested on."""
    return load(settings.data, data_dir or settings.data_dir, size=settings.size)


def run_seed(
    console: Console,
    settings: Settings,
    splits: ClassSplits,
    folder: Path,
    seed: int,
    seeds: int,
    stop: Callable[[], bool],
) -> bool:
    """Train and test one seed; False if it was interrupted."""
    run = Run(settings, splits, folder / f"seed-{seed}", seed)
    label = settings.label if seeds == 1 else f"{settings.label} seed {seed}"
    if run.finished and _tested(run.folder) == settings.test_tasks:
        console.print(f"{label}: finished before", highlight=False)
        return True
    with progress(console, label) as show:
        if not run.train(show, stop):
            return False
        tested = run.test(show)
    head = f"seed {seed}: " if seeds > 1 else ""
    spent = f"{run.standing.iteration} iterations, {run.standing.seconds:.0f} s of training"
    console.print(f"{head}{spent}", highlight=False)
    console.print(results(tested, run.best[0][1]), highlight=False, soft_wrap=True)
    return True


def _tested(folder: Path) -> int | None:
    """On how many tasks the run in a folder was tested; None if it was not."""
    try:
        return int(read_results(folder)["single"]["tasks"])
    except FileNotFoundError:
        return None


def finish(console: Console, splits: ClassSplits, folder: Path) -> None:
    """Over all seeds: the mean, and the figures."""
    values = [read_results(place)["single"]["value"] for place in seed_folders(folder)]
    if len(values) > 1:
        mean, interval = mean_and_interval(values)
        console.print(
            f"mean of {len(values)} seeds: {mean:.2f} % ± {interval:.2f} (95 % interval over seeds)",
            highlight=False,
        )
    try:
        for path in draw_run(folder, splits):
            console.print(f"Written: {path}", highlight=False, soft_wrap=True)
    except ModuleNotFoundError as error:
        console.print(f"No figures: {error}", highlight=False, soft_wrap=True)


def evaluate_seed(
    place: Path,
    settings: Settings,
    splits: ClassSplits,
    count: int,
    steps: int | None,
    transductive: bool,
    by_step: bool,
    ensemble: bool,
) -> None:
    """Test the best checkpoint in a seed's folder again, and print what comes out."""
    kept = Trained(place, splits, settings)
    tasks = kept.test_tasks(count)
    steps = settings.evaluation_steps if steps is None else steps
    found = evaluate(kept.learner, tasks, steps=steps, transductive=transductive, by_step=by_step)
    print(f"{place.name}  {settings.ways}-way {settings.shots}-shot  {found}")
    if by_step:
        for step, (value, interval) in enumerate(
            zip(found.by_step, found.interval_by_step, strict=True)
        ):
            print(f"  after {step:2} steps  {value:6.2f} % ± {interval:.2f}")
    if ensemble:
        joined = evaluate_ensemble(
            kept.learner, kept.states, tasks, steps=steps, transductive=transductive
        )
        print(f"{place.name}  {joined}")


def say_how_to_go_on(console: Console, folder: Path, seeds: int) -> None:
    """After Ctrl-C."""
    more = f" --seeds {seeds}" if seeds > 1 else ""
    console.print(
        "Interrupted; everything is saved. Go on with:\n"
        f"  gradaccord fewshot train --resume {folder}{more}",
        highlight=False,
        soft_wrap=True,
    )
