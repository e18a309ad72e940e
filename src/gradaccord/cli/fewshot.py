"""`gradaccord fewshot train | eval | figures | presets`: options in, library calls out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.errors import INTERRUPTED, needs, user_mistakes

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    no_args_is_help=True,
    help="Learn to learn from few examples: Reptile, MAML and its family, gradient sharing.",
)
ALGORITHMS = "maml, fomaml, meta-sgd, maml++, reptile, dotprod-inner, dotprod-outer"
MISTAKES = (ValueError, OSError, ModuleNotFoundError, FloatingPointError)


@app.command()
@needs("report")
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

    from gradaccord.meta.run_folder import new_run, old_run

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
    with user_mistakes(*MISTAKES):
        if resume is None:
            settings, folder = new_run(algorithm, preset, chosen, out)
        else:
            given = [*(k for k in chosen if chosen[k] is not None and k not in (*limits, "data_dir"))]
            given += [k for k, v in (("algorithm", algorithm), ("preset", preset), ("out", out)) if v]
            settings, folder, seeds = old_run(resume, given, limits, seeds)
        from gradaccord.cli.fewshot_screen import introduction
        from gradaccord.meta import seeds as runs  # torch, which a wrong option does not wait for
        from gradaccord.runs.interrupts import Interrupts

        splits = runs.load_data(settings, data_dir)
        folder.mkdir(parents=True, exist_ok=True)
        settings.save(folder / "settings.json")
    console.print(introduction(settings, splits, seeds), highlight=False, soft_wrap=True)
    console.print(f"Folder: {folder}", highlight=False, soft_wrap=True)
    with Interrupts() as interrupts:
        for seed in range(seeds):
            with user_mistakes(*MISTAKES):
                finished = runs.run_seed(
                    console, settings, splits, folder, seed, seeds, lambda: interrupts.noted
                )
            if not finished:
                runs.say_how_to_go_on(console, folder, seeds)
                raise typer.Exit(INTERRUPTED)
    runs.finish(console, splits, folder)


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

    from gradaccord.meta.saved import seed_folders
    from gradaccord.meta.seeds import evaluate_seed, load_data
    from gradaccord.meta.settings import Settings

    with user_mistakes(*MISTAKES):
        places = seed_folders(folder)
        settings = Settings.read(places[0] / "settings.json")
        settings = replace(
            settings, shots=shots or settings.shots, test_queries=queries or settings.test_queries
        )
        splits = load_data(settings, data_dir)
        for place in places:
            evaluate_seed(place, settings, splits, tasks, steps, transductive, by_step, ensemble)


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
    """Draw the validation curves of several runs into one figure, with bands over their seeds."""
    from gradaccord.meta.figures import validation_figure, write
    from gradaccord.meta.run import validation_curve
    from gradaccord.meta.saved import seed_folders
    from gradaccord.meta.settings import Settings

    with user_mistakes(*MISTAKES):
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


if __name__ == "__main__":
    app(sys.argv[1:])
