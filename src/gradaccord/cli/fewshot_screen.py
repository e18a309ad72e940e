"""What a few-shot run shows on a terminal: a bar with the time left, or lines where there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from gradaccord.meta.run import RunProgress
from gradaccord.meta.settings import FewShotSettings
from gradaccord.runs.duration import duration

LINE_EVERY = 10.0  # seconds between two lines where there is no terminal
DRAW_EVERY = 0.2


def introduction(settings: FewShotSettings, data: object, seeds: int) -> str:
    """What is about to happen, with all that decides how its numbers are to be read."""
    s = settings
    ends = [f"{s.iterations} iterations"] if s.iterations else []
    ends += [f"{s.minutes:g} minutes of training"] if s.minutes else []
    steps = f"{s.inner_steps} inner steps"
    if s.evaluation_steps not in (None, s.inner_steps):
        steps += f" ({s.evaluation_steps} in evaluation)"
    mode = "transductive" if s.transductive else "non-transductive (each query apart from the others)"
    shots = f"{s.shots}-shot" + (f" ({s.train_shots} shots in training)" if s.train_shots else "")
    return (
        f"{data}\n"
        f"{s.label}: {s.ways}-way {shots}, {s.tasks} tasks a batch, {steps} at rate {s.inner_lr:g} on "
        f"the mean loss,\nouter {s.optimizer} at {s.outer_lr:g} ({s.schedule}); {' or '.join(ends)}, "
        f"{seeds} seed{'' if seeds == 1 else 's'}. Evaluation: {mode}."
    )


def status(state: RunProgress) -> str:
    """Loss, accuracies and the learned weights of gradient sharing, in one line."""
    parts = [] if state.loss != state.loss else [f"loss {state.loss:.3f}"]
    if state.accuracy == state.accuracy:
        parts.append(f"train {state.accuracy:.1f} %")
    if state.validation is not None:
        value, interval = state.validation
        parts.append(f"validation {value:.1f} ± {interval:.1f} % (best {state.best:.1f})")
    for name, values in (("σ(m)", state.sigma_m), ("σ(λ)", state.sigma_lambda)):
        if values:
            parts.append(f"{name} {values[0]:.2f}…{values[-1]:.2f}")
    return "  ".join(parts)


@contextmanager
def progress(console: Console, label: str) -> Iterator[Callable[[RunProgress], None]]:
    """What to give to `Run.train`: draws a bar, or prints a line every ten seconds."""
    if not console.is_terminal:
        yield _lines(console, label)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TextColumn("{task.fields[left]}  {task.fields[status]}"),
    )
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task(label, total=1.0, left="", status="")
        last, doing = 0.0, ""

        def show(state: RunProgress) -> None:
            nonlocal last, doing
            before, doing = doing, state.doing.partition(",")[0]
            if time.monotonic() - last < DRAW_EVERY and doing == before:
                return
            last = time.monotonic()
            left = duration(state.seconds_left) + " left"
            bar.update(
                task,
                completed=state.share,
                left=left if state.doing == "training" else state.doing,
                status=status(state),
            )
            bar.refresh()

        yield show


def _lines(console: Console, label: str) -> Callable[[RunProgress], None]:
    last = time.monotonic()

    def show(state: RunProgress) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_EVERY:
            last = time.monotonic()
            left = duration(state.seconds_left)
            doing = f"{left} left" if state.doing == "training" else state.doing
            console.print(
                f"{label}  {state.share:.0%}  iteration {state.iteration}  {doing}  {status(state)}",
                soft_wrap=True,
                highlight=False,
            )

    return show
