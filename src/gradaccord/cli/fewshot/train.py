"""`gradaccord fewshot train`: train on few-shot tasks, test the best weights, draw the figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradaccord.cli.exit_codes import INTERRUPTED, needs, user_mistakes
from gradaccord.cli.fewshot.options import MISTAKES, load_splits

if TYPE_CHECKING:
    from rich.console import Console

    from gradaccord.data.images.class_parts import ClassSplits
    from gradaccord.meta.settings import FewShotSettings


@needs("report")
def train(
    context: typer.Context,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Settings by their names, e.g. inner_lr=0.05 schedule=cosine clip=10; each is also an "
            "option below.",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="Published hyper-parameters; `gradaccord fewshot presets` lists them."),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Repetitions with seeds 0 to N - 1.")
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of the run. Default: in runs/fewshot, named after its settings."
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
    """Train on few-shot tasks, keep the best model by validation, test it, draw the figures.

    With no options at all MAML learns characters drawn from fonts (glyphs);
    nothing is downloaded:

    [bold]gradaccord fewshot train[/bold]

    Other sets: omniglot, cub200, tiny_imagenet_fewshot, fashion_mnist.

    On your own photos, with gradient sharing, three seeds, ten minutes each:

    [bold]gradaccord fewshot train --data photos.zip --share --seeds 3 --minutes 10[/bold]

    Any setting by its name:

    [bold]gradaccord fewshot train algorithm=reptile inner_batch=5[/bold]

    Ctrl-C saves; --resume DIR continues. A killed run continues from its
    last checkpoint and ends with the same weights, bit for bit (with --minutes
    the clock decides).
    """
    from rich.console import Console

    from gradaccord.runs.lock import locked

    console = Console(highlight=False, soft_wrap=True)
    with user_mistakes(*MISTAKES):
        chosen = context.obj | ({"preset": preset} if preset is not None else {})
        data_dir = Path(chosen["data_dir"]) if "data_dir" in chosen else None
        if resume is None:
            settings, folder = _new_run(chosen, overrides or [], out)
            settings = _with_image_size(console, settings)
        else:
            settings, folder, seeds = _old_run(resume, chosen, overrides or [], out, seeds)
        from gradaccord.cli.fewshot.screen import introduction

        splits = load_splits(settings, data_dir)
    with user_mistakes(*MISTAKES), locked(folder):
        settings.save(folder)
        console.print(introduction(settings, splits, seeds))
        console.print(f"Folder: {folder}")
        kept = "everything is saved"
        try:
            whole = all(
                _run_seed(console, settings, splits, folder, seed, seeds) for seed in range(seeds)
            )
        except KeyboardInterrupt:  # the second in training, or the first in the test
            whole, kept = False, "the last checkpoint is kept"
        if not whole:
            more = f" --seeds {seeds}" if seeds > 1 else ""
            console.print(
                f"Interrupted; {kept}. Continue with:\n"
                f"  gradaccord fewshot train --resume {folder}{more}"
            )
            raise typer.Exit(INTERRUPTED)
    _finish(console, splits, folder)


def _new_run(
    chosen: dict[str, Any], overrides: list[str], out: Path | None
) -> tuple[FewShotSettings, Path]:
    """Settings and folder of a new run; a folder that holds one already is refused."""
    from gradaccord.meta.settings import parse_overrides, settings_for

    settings = settings_for(**(chosen | parse_overrides(overrides)))
    folder = out or Path("runs/fewshot") / settings.name
    if any(folder.glob("seed-*/check*")):  # checkpoints/, or checkpoint.pt of release 0.1
        raise ValueError(
            f"{folder} holds a run already: resume it with --resume {folder}, or give another --out."
        )
    return settings, folder


def _with_image_size(console: Console, settings: FewShotSettings) -> FewShotSettings:
    """Choose a size for the user's own images, unless one is given: the network takes squares."""
    from gradaccord.data.images.class_splits import common_side

    if settings.size is not None:
        return settings
    side = common_side(settings.data, settings.data_dir)
    if side is not None:
        console.print(f"The pictures are resized to {side}x{side}; --size sets another size.")
    return settings.changed(size=side)


def _old_run(
    folder: Path, chosen: dict[str, Any], overrides: list[str], out: Path | None, seeds: int
) -> tuple[FewShotSettings, Path, int]:
    """Settings, folder and number of seeds of a run to resume; only its limits may be changed."""
    from gradaccord.meta.settings import LIMITS, SETTINGS, FewShotSettings, parse_overrides

    changes = chosen | parse_overrides(overrides) | ({"out": out} if out else {})
    changes.pop("data_dir", None)
    for name in changes:
        if name not in LIMITS:
            raise ValueError(
                f"--{name.replace('_', '-')} cannot be given with --resume: the run keeps its own "
                "settings."
            )
    if not (folder / SETTINGS).exists():
        raise FileNotFoundError(f"{folder} holds no run: it has no {SETTINGS}.")
    settings = FewShotSettings.read(folder).changed(**changes)
    return settings, folder, max(seeds, len(list(folder.glob("seed-*"))))


def _run_seed(
    console: Console,
    settings: FewShotSettings,
    splits: ClassSplits,
    folder: Path,
    seed: int,
    seeds: int,
) -> bool:
    """Train and test one seed; False if it was interrupted."""
    from gradaccord.cli.fewshot.screen import progress
    from gradaccord.meta.results import FewShotResults
    from gradaccord.meta.run import Run

    say = console.print
    run = Run(settings, splits, folder / f"seed-{seed}", seed, say)
    label = settings.label if seeds == 1 else f"{settings.label} seed {seed}"
    if run.finished and FewShotResults.exists(run.folder):
        tested = FewShotResults.read(run.folder)
        if tested.single.tasks == settings.test_tasks:
            say(f"{label}: already finished")
            return True
    with progress(console, label) as show:
        if not run.train(show):
            return False
        tested = run.test(show)
    head = f"seed {seed}: " if seeds > 1 else ""
    say(f"{head}{tested.iterations} iterations, {tested.training_seconds:.0f} s of training")
    say(str(tested))
    return True


def _finish(console: Console, splits: ClassSplits, folder: Path) -> None:
    """Print the mean over all seeds, draw the figures, and say what to do next."""
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
    console.print(
        "Test it again, with other shots or more steps:\n"
        f"  gradaccord fewshot eval {folder} --shots 5 --by-step\n"
        "Draw it beside another run:\n"
        f"  gradaccord fewshot figures {folder} OTHER --out curves.png\n"
        "Keep settings, curve and tests in a small file:\n"
        f"  gradaccord fewshot record {folder} --out records"
    )
