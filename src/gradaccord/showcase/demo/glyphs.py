"""The third part of the demo: learning to learn characters from one picture of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gradaccord.core.threads import one_thread
from gradaccord.data.images.class_splits import load
from gradaccord.meta.progress import RunProgress
from gradaccord.meta.results import FewShotResults
from gradaccord.meta.run import Run, validation_curve
from gradaccord.meta.saved_runs import draw_run
from gradaccord.meta.settings import settings_for
from gradaccord.showcase.demo.settings import DemoSettings

FOLDER = "glyphs/maml"  # deeper than the comparison's runs, so that the report leaves it out
ITERATIONS = 240
FILTERS = 32  # of Conv-4; half as many as usual, for speed


@dataclass(frozen=True)
class Glyphs:
    """Accuracies in percent, on tasks of five characters never seen before."""

    before: float  # without a single inner step
    after: float  # after the inner steps of training, on all test tasks
    interval: float  # half of its 95 % interval
    steps: int
    untrained: float  # after as many steps from fresh weights, on the validation tasks
    validated: float  # of the weights that were kept, on the same tasks
    tasks: int
    iterations: int


def few_shot(settings: DemoSettings, show: Callable[[RunProgress], None]) -> Glyphs:
    """Train MAML on `glyphs` and test it; continues where an earlier call was stopped."""
    iterations = settings.shortened(ITERATIONS)
    chosen = settings_for(
        "maml",
        filters=FILTERS,
        iterations=iterations,
        validate_every=max(iterations // 3, 1),
        validation_tasks=settings.shortened(40),
        test_tasks=settings.shortened(80),
        curve_tasks=settings.shortened(40),
        keep=1,
    )
    folder = settings.out / FOLDER
    place = folder / "seed-0"
    if not (folder / "adaptation.png").exists() or not FewShotResults.exists(place):
        data = load("glyphs")
        with one_thread():  # the other core pretrains
            run = Run(chosen, data, place)
            if not run.train(show):
                raise KeyboardInterrupt
            run.test(show)
        draw_run(folder, data)
    return _read(place, chosen.inner_steps)


def _read(place: Path, steps: int) -> Glyphs:
    found = FewShotResults.read(place)
    curve = validation_curve(place)
    return Glyphs(
        before=found.curve.by_step[0],
        after=found.single.value,
        interval=found.single.interval,
        steps=steps,
        untrained=curve[0][1],
        validated=next(value for i, value, _ in curve if i == found.best_iteration),
        tasks=found.single.tasks,
        iterations=found.iterations,
    )
