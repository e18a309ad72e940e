"""`gradaccord fewshot`: train, eval, figures, record, docs, presets; options in, library calls out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from gradaccord.cli.exit_codes import INTERRUPTED, needs, user_mistakes

if TYPE_CHECKING:
    from rich.console import Console

    from gradaccord.data.images.class_splits import ClassSplits
    from gradaccord.meta.run import Run
    from gradaccord.meta.settings import FewShotSettings
    from gradaccord.runs.interrupts import Interrupts

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    no_args_is_help=True,
    help="""Learn to learn from few examples: Reptile, MAML and its family, gradient sharing.

    For example, in ten minutes:

    [bold]gradaccord fewshot train --minutes 10[/bold]
    """,
)
MISTAKES = (ValueError, OSError, ModuleNotFoundError, FloatingPointError)


# The settings that are options, too: their type and help. `FewShotSettings` checks the values.
OPTIONS: dict[str, tuple[type, str]] = {
    "data": (
        str,
        "A set named above (default: glyphs), or a folder or zip of images: train/, val/, test/ with a "
        "folder for each class, or class folders alone, which are split 64/16/20 (at least 3 x ways "
        "of them).",
    ),
    "data_dir": (Path, "Where the named sets are: DIR/omniglot and so on."),
    "algorithm": (
        str,
        "One of maml, fomaml, meta-sgd, maml++, reptile, dotprod-inner, dotprod-outer. maml "
        "differentiates through the inner steps; fomaml leaves that out (a third of the time); reptile "
        "and dotprod need no queries. Default: maml.",
    ),
    "share": (
        bool,
        "Gradient sharing (Chang & Lipson 2020) on maml, meta-sgd or maml++: tasks of a batch also "
        "follow a running mean of their gradients. Off unless a preset has it.",
    ),
    "preset": (str, "Published hyper-parameters; `gradaccord fewshot presets` lists them."),
    "ways": (int, "Classes of a task. Default: 5."),
    "shots": (int, "Labelled examples of each class to adapt to. Default: 1."),
    "train_shots": (int, "The same in training, if it differs: Reptile takes 10 to 15."),
    "queries": (int, "Examples of each class to measure the adaptation on, in training. Default: 5."),
    "tasks": (int, "Tasks a meta-update is averaged over. Default: 4."),
    "inner_lr": (
        float,
        "Step size of adaptation, on a loss that is a MEAN over examples. A rate published for a sum "
        "over the ways (Finn's 0.4) must be multiplied by the ways (2.0).",
    ),
    "inner_steps": (int, "Steps of adaptation in training; time grows in proportion."),
    "evaluation_steps": (int, "The same in evaluation, if it differs: Reptile takes 50."),
    "outer_lr": (float, "Rate of the outer optimiser: 0.001 for Adam; Reptile 1."),
    "network": (str, "Conv-4 as a code base has it: maml, reptile, maml++, or auto (by image size)."),
    "filters": (int, "Channels of Conv-4: 64 for characters, 32 or 48 for photos."),
    "size": (int, "Resize the images to this many pixels a side."),
    "iterations": (int, "Meta-updates. Default: 3000, or no bound if --minutes is given."),
    "minutes": (
        float,
        "Stop after this much training time (validation not counted), for comparisons at equal time. "
        "Schedules then follow the clock.",
    ),
    "clock": (
        str,
        "What --minutes measures: wall, or processor, which leaves out what other programs on a busy "
        "machine take. Default: wall.",
    ),
    "validate_every": (int, "Iterations between two validations; each also saves. Default: 100."),
    "validation_tasks": (int, "Fixed tasks of a validation. Default: 100."),
    "test_tasks": (int, "Fixed tasks of the final test. Default: 600."),
    "test_queries": (
        int,
        "Queries of each class in validation and test. Default: 5; the interval is over tasks, so that "
        "more of them hardly narrow it.",
    ),
    "transductive": (
        bool,
        "Let the queries of a task share batch statistics in evaluation. It makes tasks easier: never "
        "compare such a number with one obtained without. Default: non-transductive.",
    ),
}
NAMES = {"share": "--share/--no-share", "transductive": "--transductive/--non-transductive"}
VARIABLES = {"data_dir": "GRADACCORD_DATA"}


def settings_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command every option of `OPTIONS`; it is called with those given, as `chosen`."""

    @wraps(command)
    def called(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in OPTIONS}
        command(chosen={n: value for n, value in chosen.items() if value is not None}, **given)

    def option(name: str, kind: type, text: str) -> Parameter:
        flag = NAMES.get(name, f"--{name.replace('_', '-')}")
        hint = Annotated[kind | None, typer.Option(flag, help=text, envvar=VARIABLES.get(name))]  # type: ignore[valid-type]
        return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=hint)

    hints = get_type_hints(command, include_extras=True)
    own = signature(command).parameters
    parameters = [
        *(option(name, kind, text) for name, (kind, text) in OPTIONS.items()),
        *(
            own[n].replace(annotation=hints[n], kind=Parameter.KEYWORD_ONLY)
            for n in own
            if n != "chosen"
        ),
    ]
    setattr(called, "__signature__", Signature(parameters))  # noqa: B010
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


@app.command()
@needs("report")
@settings_options
def train(
    chosen: dict[str, Any],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Any setting of settings.json, e.g. inner_lr=0.05 schedule=cosine clip=10; an "
            "option below of the same name is the same setting.",
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
            help="Resume the run in this folder, with its own settings; only --iterations, "
            "--minutes, --test-tasks and --seeds may be given with it.",
        ),
    ] = None,
) -> None:
    """Train on few-shot tasks, keep the best by validation, test it, and draw the figures.

    With no options at all MAML learns characters drawn from fonts (glyphs);
    nothing is downloaded:

    [bold]gradaccord fewshot train[/bold]

    Other sets: omniglot, cub200, tiny_imagenet_fewshot, fashion_mnist.

    On your own photos, with gradient sharing, three seeds, ten minutes each:

    [bold]gradaccord fewshot train --data photos.zip --share --seeds 3 --minutes 10[/bold]

    Any setting by its name:

    [bold]gradaccord fewshot train algorithm=reptile inner_batch=5[/bold]

    Ctrl-C saves; --resume DIR goes on. A run that was killed goes on from its
    last checkpoint and ends with the same weights, bit for bit (with --minutes
    the clock decides).
    """
    from rich.console import Console

    from gradaccord.runs.interrupts import Interrupts
    from gradaccord.runs.lock import locked

    console = Console(highlight=False, soft_wrap=True)
    with user_mistakes(*MISTAKES):
        data_dir = chosen.get("data_dir")
        if resume is None:
            settings, folder = _new_run(chosen, overrides or [], out)
        else:
            settings, folder, seeds = _old_run(resume, chosen, overrides or [], out, seeds)
        from gradaccord.cli.fewshot_screen import introduction

        splits = _load(settings, data_dir)
    doing = Doing()
    interrupts = Interrupts(console.print, doing.what_next)
    with user_mistakes(*MISTAKES), locked(folder), interrupts:
        settings.save(folder / "settings.json")
        console.print(introduction(settings, splits, seeds))
        console.print(f"Folder: {folder}")
        for seed in range(seeds):
            if not _run_seed(console, settings, splits, folder, seed, seeds, interrupts, doing):
                more = f" --seeds {seeds}" if seeds > 1 else ""
                console.print(
                    "Interrupted; everything is saved. Go on with:\n"
                    f"  gradaccord fewshot train --resume {folder}{more}"
                )
                raise typer.Exit(INTERRUPTED)
    _finish(console, splits, folder)


class Doing:
    """What the run of this seed is doing, for whoever presses Ctrl-C."""

    run: Run | None = None

    def what_next(self) -> str:
        """What Ctrl-C leads to."""
        doing = "training" if self.run is None else self.run.progress.doing
        if doing.startswith("testing"):
            return "training is saved, and the test goes on; press again to stop at once"
        what = "this validation" if doing.startswith("validating") else "this iteration"
        return f"finishing {what}, then saving; press again to stop at once"


def _load(settings: FewShotSettings, data_dir: Path | None) -> ClassSplits:
    from gradaccord.data.images.class_splits import load

    s = settings
    return load(s.data, data_dir or s.data_dir, size=s.size, ways=s.ways)


def _new_run(
    chosen: dict[str, Any], overrides: list[str], out: Path | None
) -> tuple[FewShotSettings, Path]:
    """Settings and folder of a new run; a folder that holds one already is refused."""
    from gradaccord.meta.settings import parse_overrides, settings_for

    chosen = {name: str(value) if name == "data_dir" else value for name, value in chosen.items()}
    settings = settings_for(**(chosen | parse_overrides(overrides)))
    folder = out or Path("runs/fewshot") / settings.name
    if any(folder.glob("seed-*/check*")):  # checkpoints/, or checkpoint.pt of release 0.1
        raise ValueError(
            f"{folder} holds a run already: resume it by --resume {folder}, or give another --out."
        )
    return settings, folder


def _old_run(
    folder: Path, chosen: dict[str, Any], overrides: list[str], out: Path | None, seeds: int
) -> tuple[FewShotSettings, Path, int]:
    """Settings, folder and number of seeds of a run that is resumed; only limits may be given."""
    from gradaccord.meta.settings import LIMITS, FewShotSettings, parse_overrides

    changes = chosen | parse_overrides(overrides) | ({"out": out} if out else {})
    changes.pop("data_dir", None)
    for name in changes:
        if name not in LIMITS:
            raise ValueError(
                f"--{name.replace('_', '-')} cannot be given with --resume: the run keeps its own "
                "settings."
            )
    if not (folder / "settings.json").exists():
        raise FileNotFoundError(f"{folder} holds no run: it has no settings.json.")
    settings = FewShotSettings.read(folder / "settings.json").changed(**changes)
    return settings, folder, max(seeds, len(list(folder.glob("seed-*"))))


def _run_seed(
    console: Console,
    settings: FewShotSettings,
    splits: ClassSplits,
    folder: Path,
    seed: int,
    seeds: int,
    interrupts: Interrupts,
    doing: Doing,
) -> bool:
    """Train and test one seed; False if it was interrupted."""
    from gradaccord.cli.fewshot_screen import progress
    from gradaccord.meta.results import FewShotResults
    from gradaccord.meta.run import Run

    say = console.print
    run = Run(settings, splits, folder / f"seed-{seed}", seed, say)
    doing.run = run
    label = settings.label if seeds == 1 else f"{settings.label} seed {seed}"
    if run.finished and FewShotResults.exists(run.folder):
        tested = FewShotResults.read(run.folder)
        if tested.single.tasks == settings.test_tasks:
            say(f"{label}: finished before")
            return True
    with progress(console, label) as show:
        if not run.train(show, lambda: interrupts.noted):
            return False
        tested = run.test(show)
    head = f"seed {seed}: " if seeds > 1 else ""
    say(f"{head}{tested.iterations} iterations, {tested.training_seconds:.0f} s of training")
    say(str(tested))
    return True


def _finish(console: Console, splits: ClassSplits, folder: Path) -> None:
    """Over all seeds: the mean, and the figures."""
    from gradaccord.meta.evaluation import mean_and_interval
    from gradaccord.meta.results import FewShotResults
    from gradaccord.meta.saved_runs import draw_run, seed_folders

    values = [FewShotResults.read(place).single.value for place in seed_folders(folder)]
    if len(values) > 1:
        mean, interval = mean_and_interval(values)
        console.print(
            f"mean of {len(values)} seeds: {mean:.2f} % ± {interval:.2f} (95 % interval over seeds)"
        )
    try:
        for path in draw_run(folder, splits):
            console.print(f"Written: {path}")
    except ModuleNotFoundError as error:
        console.print(f"No figures: {error}")


@app.command("eval")
def evaluate_run(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of a run, or of one of its seeds.")
    ],
    data_dir: Annotated[
        Path | None,
        typer.Option(envvar="GRADACCORD_DATA", metavar="DIR", help="Where the named sets are."),
    ] = None,
    tasks: Annotated[int, typer.Option(min=1, metavar="N", help="Fixed test tasks.")] = 600,
    shots: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Another number of examples of each class than in the run."
        ),
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
        typer.Option("--ensemble", help="Also the ensemble of the best checkpoints, on its own line."),
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
        settings = FewShotSettings.read(places[0] / "settings.json")
        settings = settings.changed(shots=shots, test_queries=queries)
        splits = _load(settings, data_dir)
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


@app.command()
@needs("report")
def figures(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of runs to compare.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Where to write it; the suffix gives the kind.")
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
            settings = FewShotSettings.read(places[0] / "settings.json")
            label = settings.label if settings.label not in runs else folder.name
            runs[label] = [validation_curve(place) for place in places]
            ways.add(settings.ways)
        chance = 100 / ways.pop() if len(ways) == 1 else None
        print(f"Written: {write(validation_figure(runs, chance=chance), out)}")


@app.command()
def record(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of a run, or of one of its seeds.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the records are kept.")] = Path(
        "results/fewshot"
    ),
    data_dir: Annotated[
        Path | None,
        typer.Option(envvar="GRADACCORD_DATA", metavar="DIR", help="Where the named sets are."),
    ] = None,
    shots: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Examples of each class to adapt to; may be given several times."),
    ] = None,
    both: Annotated[
        bool, typer.Option("--both", help="Test transductive predictions and the others.")
    ] = False,
    tasks: Annotated[int, typer.Option(min=1, help="Fixed test tasks.")] = 600,
    commit: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="Commit that the run started from, if it recorded none."),
    ] = None,
) -> None:
    """Test a run's best checkpoint and keep settings, commit, curve and results in a small file.

    [bold]gradaccord fewshot record runs/fewshot/omniglot --shots 1 --shots 5[/bold]
    """
    from gradaccord.meta.records import record_run
    from gradaccord.meta.saved_runs import seed_folders
    from gradaccord.meta.settings import FewShotSettings

    with user_mistakes(*MISTAKES):
        for place in seed_folders(folder):
            splits = _load(FewShotSettings.read(place / "settings.json"), data_dir)
            modes = [False, True] if both else []
            found = record_run(
                place, splits, shots=shots or [], modes=modes, tasks=tasks, commit=commit
            )
            print(f"Written: {found.write(out)}")


@app.command()
@needs("report")
def docs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the records are kept.")] = Path(
        "results/fewshot"
    ),
    page: Annotated[
        Path, typer.Option(metavar="FILE", help="The page, with two marks around its results.")
    ] = Path("docs/fewshot.md"),
) -> None:
    """Put all records into a Markdown page: a table beside published numbers, and curves.

    [bold]gradaccord fewshot docs results/fewshot --page docs/fewshot.md[/bold]
    """
    from gradaccord.report.fewshot_results import write_results

    with user_mistakes(*MISTAKES):
        for path in write_results(page, folder):
            print(f"Written: {path}")


@app.command()
def presets() -> None:
    """List the published hyper-parameters, with their source and the scale of their loss.

    [bold]gradaccord fewshot presets[/bold]
    """
    from gradaccord.meta.presets import PRESETS

    for preset in PRESETS.values():
        values = ", ".join(f"{name}={value}" for name, value in preset.settings.items())
        print(preset.name)
        for text in (preset.source, f"loss: {preset.loss_scale}", values):
            print(*wrap(text, 80, initial_indent="  ", subsequent_indent="    "), sep="\n")


if __name__ == "__main__":
    app(sys.argv[1:])
