"""What a few-shot run shows: a bar with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.text import Text

from gradaccord.meta.progress import RunProgress
from gradaccord.meta.settings import FewShotSettings
from gradaccord.runs.duration import duration

LINE_EVERY = 10.0  # seconds between two lines where there is no terminal
DRAW_EVERY = 0.2


def introduction(settings: FewShotSettings, data: object, seeds: int) -> str:
    """What will be run, with every setting that matters for its numbers."""
    s = settings
    ends = [f"{s.iterations} iterations"] if s.iterations else []
    ends += [f"{s.minutes:g} minute{'s' * (s.minutes != 1)} of training"] if s.minutes else []
    steps = f"{s.inner_steps} inner steps"
    if s.evaluation_steps not in (None, s.inner_steps):
        steps += f" ({s.evaluation_steps} in evaluation)"
    mode = "transductive" if s.transductive else "non-transductive (each query predicted on its own)"
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


class BarAndStatus(Progress):
    """A bar with a line of text below it: side by side they are wider than many terminals."""

    status = ""

    def get_renderables(self) -> Iterator[RenderableType]:
        """The bar, then the line."""
        yield from super().get_renderables()
        yield Text(self.status, no_wrap=True, overflow="ellipsis")


@contextmanager
def progress(console: Console, label: str) -> Iterator[Callable[[RunProgress], None]]:
    """The callback for `Run.train`: draws a bar, or prints a line every ten seconds."""
    if not console.is_terminal:
        yield _lines(console, label)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with BarAndStatus(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task(label, total=1.0, left="")
        last, doing = 0.0, ""

        def show(state: RunProgress) -> None:
            nonlocal last, doing
            before, doing = doing, state.doing.partition(",")[0]
            if time.monotonic() - last < DRAW_EVERY and doing == before:
                return
            last = time.monotonic()
            left = duration(state.seconds_left) + " left"
            shown = left if state.doing == "training" else state.doing
            bar.status = status(state)
            bar.update(task, completed=state.share, left=shown)
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
