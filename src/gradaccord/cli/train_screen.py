"""What `train` shows on a terminal: a bar with the losses, and the scores at the end."""

from __future__ import annotations

import math
import time

from rich.console import Console, Group
from rich.table import Table

from gradaccord.cli import screen
from gradaccord.runs.duration import duration
from gradaccord.runs.results import Results
from gradaccord.train.progress import NOW, Progress


class Screen(screen.Screen[Progress]):
    """Pass `show` and `say` to `train` inside `with running()`."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, picture, line)
        self._doing = ""
        self._saving_shown = False  # in a file: whether the last line says that the run is saving

    def show(self, progress: Progress) -> None:
        """Draw the progress if it is time to, and at once when the activity changes; in a file only for
        saving, which a comparison reads there and shows in place of the time left.
        """
        if progress.doing != self._doing:
            saves = progress.doing.startswith("saving")
            if self._live or self._saving_shown or (saves and time.monotonic() - self._last > 1):
                self._last = -math.inf
            self._saving_shown = saves and self._last < 0
        self._doing = progress.doing
        super().show(progress)


def picture(progress: Progress) -> Group:
    """A bar with the time left, and the losses."""
    return screen.steps_picture(progress.phase, progress, _numbers(progress))


def line(progress: Progress) -> str:
    """The time left and the losses in one line."""
    if not progress.step and progress.doing:
        return f"{progress.phase}{NOW}{progress.now}"
    left = duration(progress.seconds_left)
    return f"{progress.phase} {progress.share:.0%}, step {progress.step:,}, {left} left" + (
        f"{NOW}{progress.now}" if progress.doing else f"; {_numbers(progress)}"
    )


def _numbers(progress: Progress) -> str:
    parts = ["loss " + " ".join(f"{task} {loss:.3f}" for task, loss in progress.losses.items())]
    if not math.isnan(progress.conflicts):
        parts.append(f"conflicts {progress.conflicts:.0%}")
    if progress.scores:
        scores = " ".join(f"{task} {score:.1f}" for task, score in progress.scores.items())
        parts.append(f"dev {scores} (best average {progress.best:.1f})")
    return " · ".join(parts)


def results_table(results: Results) -> Table:
    """Every task's scores on every split."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("task", "split", "scores (the best checkpoint; main metric first)"):
        table.add_column(heading)
    for split in ("dev", "test"):
        for task, scores in results.scores_shown(split).items():
            main, *rest = [f"{metric} {value:.2f}" for metric, value in scores.items()]
            known = results.reference(task, split)
            beside = "" if known is None else f" ({known.text})"
            table.add_row(task, split, ", ".join([main + beside, *rest]))
        unseen = results.unseen_average(split)
        if math.isfinite(unseen):
            table.add_row("zero-shot average", split, f"{unseen:.2f}", style="dim")
    if results.weights:
        given = ", ".join(f"{task} {weight:g}" for task, weight in results.weights.items())
        table.add_row("task weights", "", f"{given}; the others 1", style="dim")
    if results.stopped:
        steps = ", ".join(f"{task} after step {step:,}" for task, step in results.stopped.items())
        table.add_row("stopped early", "", steps, style="dim")
    return table
