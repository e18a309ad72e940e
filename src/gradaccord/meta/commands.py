"""`gradaccord fewshot train | eval | figures | presets`: options in, library calls out."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from gradaccord.meta.settings import Settings
app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    no_args_is_help=True,
    help="Learn to learn from few examples: Reptile, MAML and its family, gradient sharing.",
)
INTERRUPTED = 130
ALGORITHMS = "maml, fomaml, meta-sgd, maml++, reptile, dotprod-inner, dotprod-outer"
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


@app.command()
def train(
    data: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|PATH",
            help="glyphs (characters drawn from fonts, no download; the default), omniglot, "
            "cub200, tiny_imagenet_fewshot, fashion_mnist, or a folder or zip of images: "
            "train/, val/, test/ with a folder for each class, or class folders alone, "
            "which are split 64/16/20.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            envvar="GRADACCORD_DATA",
            metavar="DIR",
            help="Where the named sets are: DIR/omniglot/images_background.zip and so on.",
        ),
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"One of {ALGORITHMS}. maml differentiates through the inner steps; fomaml "
            "leaves that out (a third of the time); reptile and dotprod need no queries. "
            "Default: maml.",
        ),
    ] = None,
    share: Annotated[
        bool | None,
        typer.Option(
            "--share/--no-share",
            help="Gradient sharing (Chang & Lipson 2020) on maml, meta-sgd or maml++: tasks of a "
            "batch also follow a running mean of their gradients. Off unless a preset has "
            "it.",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Published hyper-parameters; `gradaccord fewshot presets` lists them."
        ),
    ] = None,
    ways: Annotated[int | None, typer.Option(min=2, help="Classes of a task. Default: 5.")] = None,
    shots: Annotated[
        int | None, typer.Option(min=1, help="Labelled examples of each class to adapt to. Default: 1.")
    ] = None,
    train_shots: Annotated[
        int | None,
        typer.Option(min=1, help="The same in training, if it differs: Reptile takes 10 to 15."),
    ] = None,
    queries: Annotated[
        int | None,
        typer.Option(
            min=1, help="Examples of each class that judge the adaptation, in training. Default: 5."
        ),
    ] = None,
    tasks: Annotated[
        int | None, typer.Option(min=1, help="Tasks a meta-update is averaged over. Default: 4.")
    ] = None,
    inner_lr: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            help="Step size of adaptation, on a loss that is a MEAN over examples. A rate "
            "published for a sum over the ways (Finn's 0.4) must be multiplied by the ways "
            "(2.0).",
        ),
    ] = None,
    inner_steps: Annotated[
        int | None,
        typer.Option(min=1, help="Steps of adaptation in training; time grows in proportion."),
    ] = None,
    evaluation_steps: Annotated[
        int | None,
        typer.Option(min=0, help="The same in evaluation, if it differs: Reptile takes 50."),
    ] = None,
    outer_lr: Annotated[
        float | None,
        typer.Option(metavar="RATE", help="Rate of the outer optimiser: 0.001 for Adam; Reptile 1."),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Conv-4 as a code base has it: maml, reptile, maml++, or auto (by image size).",
        ),
    ] = None,
    filters: Annotated[
        int | None,
        typer.Option(min=1, help="Channels of Conv-4: 64 for characters, 32 or 48 for photos."),
    ] = None,
    size: Annotated[
        int | None, typer.Option(min=16, help="Resize the images to this many pixels a side.")
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(min=1, help="Meta-updates. Default: 3000, or no bound if --minutes is given."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Stop after this much training time (validation not counted), for comparisons "
            "at equal time. Schedules then follow the clock.",
        ),
    ] = None,
    clock: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What --minutes measures: wall, or processor, which leaves out what other "
            "programs on a busy machine take. Default: wall.",
        ),
    ] = None,
    validate_every: Annotated[
        int | None,
        typer.Option(min=1, help="Iterations between two validations; each also saves. Default: 100."),
    ] = None,
    validation_tasks: Annotated[
        int | None, typer.Option(min=1, help="Fixed tasks of a validation. Default: 100.")
    ] = None,
    test_tasks: Annotated[
        int | None, typer.Option(min=1, help="Fixed tasks of the final test. Default: 600.")
    ] = None,
    test_queries: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Queries of each class in validation and test. Default: 5; the interval is over "
            "tasks, so that more of them hardly narrow it.",
        ),
    ] = None,
    transductive: Annotated[
        bool | None,
        typer.Option(
            "--transductive/--non-transductive",
            help="Let the queries of a task share batch statistics in evaluation. It makes tasks "
            "easier: never compare such a number with one obtained without. Default: "
            "non-transductive.",
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Repetitions with seeds 0 to N - 1.")
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of the run. Default: runs/fewshot/ and a name made up."
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Go on with the run in this folder, with its own settings; only --iterations, "
            "--minutes, --test-tasks and --seeds may be given beside it.",
        ),
    ] = None,
) -> None:
    """Train on few-shot tasks, keep the best by validation, test it, and draw the figures.

    With no options at all MAML learns characters drawn from fonts; nothing is downloaded:

    [bold]gradaccord fewshot train[/bold]

    On your own photos, with gradient sharing, three seeds, ten minutes each:

    [bold]gradaccord fewshot train --data photos.zip --size 84 --share --seeds 3 --minutes 10[/bold]

    Ctrl-C saves; --resume DIR goes on. A run that was killed goes on from its last checkpoint and
    ends with the same weights, bit for bit (with --minutes the clock decides).
    """
    from rich.console import Console

    console = Console()
    limits = {"iterations": iterations, "minutes": minutes, "test_tasks": test_tasks}
    chosen = {
        "data": data, "data_dir": str(data_dir) if data_dir else None, "size": size, "share": share,
        "ways": ways, "shots": shots, "train_shots": train_shots, "queries": queries, "tasks": tasks,
        "inner_lr": inner_lr, "inner_steps": inner_steps, "evaluation_steps": evaluation_steps,
        "outer_lr": outer_lr, "network": network, "filters": filters, "clock": clock,
        "validate_every": validate_every, "validation_tasks": validation_tasks,
        "test_queries": test_queries, "transductive": transductive, **limits,
    }  # fmt: skip
    with _user_mistakes():
        if resume is None:
            settings, folder = _new_run(algorithm, preset, chosen, out)
        else:
            given = [*(k for k in chosen if chosen[k] is not None and k not in (*limits, "data_dir"))]
            given += [k for k, v in (("algorithm", algorithm), ("preset", preset), ("out", out)) if v]
            settings, folder, seeds = _old_run(resume, given, limits, seeds)
        splits = _load(settings, data_dir)
        folder.mkdir(parents=True, exist_ok=True)
        settings.save(folder / "settings.json")
    from gradaccord.meta.screen import introduction

    console.print(introduction(settings, splits, seeds), highlight=False, soft_wrap=True)
    console.print(f"Folder: {folder}", highlight=False, soft_wrap=True)
    with _interruptible() as stop:
        for seed in range(seeds):
            if not _run_seed(console, settings, splits, folder, seed, seeds, stop):
                _say_how_to_go_on(console, folder, seeds)
                raise typer.Exit(INTERRUPTED)
    _finish(console, splits, folder)


@app.command("eval")
def evaluate_run(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of a run, or of one of its seeds.")
    ],
    data_dir: Annotated[
        Path | None,
        typer.Option(envvar="GRADACCORD_DATA", metavar="DIR", help="Where the named sets are."),
    ] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Fixed test tasks.")] = 600,
    shots: Annotated[
        int | None,
        typer.Option(min=1, help="Another number of examples of each class than in the run."),
    ] = None,
    queries: Annotated[int | None, typer.Option(min=1, help="Queries of each class.")] = None,
    steps: Annotated[
        int | None, typer.Option(min=0, help="Inner steps; more than in training is allowed.")
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
        typer.Option("--ensemble", help="Also the ensemble of the best checkpoints, on its own line."),
    ] = False,
) -> None:
    """Test the best checkpoint of a run again: more tasks, other shots or steps, transductive or not.

    [bold]gradaccord fewshot eval runs/fewshot/glyphs-5way-1shot-maml --steps 10 --by-step[/bold]
    """
    from dataclasses import replace

    from gradaccord.meta.settings import Settings
    from gradaccord.meta.trained import seed_folders

    with _user_mistakes():
        places = seed_folders(folder)
        settings = Settings.read(places[0] / "settings.json")
        settings = replace(
            settings, shots=shots or settings.shots, test_queries=queries or settings.test_queries
        )
        splits = _load(settings, data_dir)
        for place in places:
            _evaluate_seed(place, settings, splits, tasks, steps, transductive, by_step, ensemble)


@app.command()
def figures(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of runs to compare.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Where to write it; the suffix gives the kind.")
    ] = Path("validation.png"),
) -> None:
    """Draw the validation curves of several runs into one figure, with bands over their seeds."""
    from gradaccord.meta.figures import validation_figure, write
    from gradaccord.meta.settings import Settings
    from gradaccord.meta.trained import seed_folders
    from gradaccord.meta.training import validation_curve

    with _user_mistakes():
        runs = {}
        for folder in folders:
            places = seed_folders(folder)
            settings = Settings.read(places[0] / "settings.json")
            label = settings.label if settings.label not in runs else folder.name
            runs[label] = [validation_curve(place) for place in places]
        print(f"Written: {write(validation_figure(runs), out)}")


@app.command()
def presets() -> None:
    """List the published hyper-parameters, with their source and the scale of their loss."""
    from gradaccord.meta.presets import PRESETS

    for preset in PRESETS.values():
        values = ", ".join(f"{name}={value}" for name, value in preset.settings.items())
        print(f"{preset.name}\n  {preset.source}\n  loss: {preset.loss_scale}\n  {values}")


def _new_run(
    algorithm: str | None, preset: str | None, chosen: dict[str, Any], out: Path | None
) -> tuple[Settings, Path]:
    from gradaccord.meta.presets import find_preset
    from gradaccord.meta.settings import settings_for

    name = algorithm or (find_preset(preset).algorithm if preset else "maml")
    settings = settings_for(name, preset=preset, **chosen)
    folder = out or Path("runs/fewshot") / settings.name
    if any(folder.glob("seed-*/checkpoint.pt")):
        raise ValueError(
            f"{folder} holds a run already: go on with it by --resume {folder}, or give another --out."
        )
    return settings, folder


def _old_run(
    folder: Path, given: list[str], limits: dict[str, Any], seeds: int
) -> tuple[Settings, Path, int]:
    from gradaccord.meta.settings import Settings

    if given:
        raise ValueError(
            f"--{given[0].replace('_', '-')} cannot be given with --resume: the run keeps its own "
            "settings."
        )
    if not (folder / "settings.json").exists():
        raise FileNotFoundError(f"{folder} holds no run: it has no settings.json.")
    settings = Settings.read(folder / "settings.json").continued(**limits)
    return settings, folder, max(seeds, len(list(folder.glob("seed-*"))))


def _load(settings: Settings, data_dir: Path | None) -> Any:
    from gradaccord.data.class_splits import load

    return load(settings.data, data_dir or settings.data_dir, size=settings.size)


def _run_seed(
    console: Any,
    settings: Settings,
    splits: Any,
    folder: Path,
    seed: int,
    seeds: int,
    stop: Callable[[], bool],
) -> bool:
    """Train and test one seed; False if it was interrupted."""
    from gradaccord.meta.screen import progress, results
    from gradaccord.meta.training import Run

    with _user_mistakes():
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
    from gradaccord.meta.trained import read_results

    try:
        return int(read_results(folder)["single"]["tasks"])
    except FileNotFoundError:
        return None


def _finish(console: Any, splits: Any, folder: Path) -> None:
    """Over all seeds: the mean, and the figures."""
    from gradaccord.meta.evaluation import mean_and_interval
    from gradaccord.meta.trained import draw_run, read_results, seed_folders

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


def _evaluate_seed(
    place: Path,
    settings: Settings,
    splits: Any,
    count: int,
    steps: int | None,
    transductive: bool,
    by_step: bool,
    ensemble: bool,
) -> None:
    from gradaccord.meta.evaluation import evaluate, evaluate_ensemble
    from gradaccord.meta.trained import Trained

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


def _say_how_to_go_on(console: Any, folder: Path, seeds: int) -> None:
    more = f" --seeds {seeds}" if seeds > 1 else ""
    console.print(
        "Interrupted; everything is saved. Go on with:\n"
        f"  gradaccord fewshot train --resume {folder}{more}",
        highlight=False,
        soft_wrap=True,
    )


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C asks to stop after the iteration at hand, a second one stops at once."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    try:
        before = signal.signal(signal.SIGINT, ask)
    except ValueError:  # not in the main thread, which alone gets signals
        yield lambda: False
        return
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _user_mistakes() -> Iterator[None]:
    """Turn what a wrong option, file or rate causes into one sentence."""
    try:
        yield
    except (ValueError, OSError, ModuleNotFoundError, FloatingPointError) as error:
        sentence = str(error)
        if isinstance(error, OSError) and error.strerror:
            sentence = f"{error.filename}: {error.strerror}."
        raise _UsageError(sentence) from error


if __name__ == "__main__":
    app(sys.argv[1:])
