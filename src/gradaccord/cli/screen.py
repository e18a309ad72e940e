"""Live progress on a terminal, or a plain line now and then where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Generic, Protocol, TypeVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gradaccord.core.watch import Watch
from gradaccord.runs.duration import duration

State = TypeVar("State")


class Screen(Generic[State]):
    """Shows the progress of long work: pass `show` to it as a callback, inside `with running()`.

    picture: draws a state on a terminal; line: writes it for a file. A state is drawn at most every
    `refresh` seconds, written at most every `line_every`.
    """

    def __init__(
        self,
        console: Console,
        picture: Callable[[State], RenderableType],
        line: Callable[[State], str],
        refresh: float = 0.25,
        line_every: float = 10.0,
    ) -> None:
        self.console = console
        self._picture, self._line = picture, line
        self._last = time.monotonic()
        self._live: Live | None = None
        self._every = line_every
        if console.is_terminal:
            # Drawn between two steps, never by a thread beside them: it would slow them down.
            self._live = Live(console=console, auto_refresh=False, transient=True)
            self._every = refresh

    def running(self) -> AbstractContextManager[object]:
        """Keeps the live display on the terminal; does nothing where there is no terminal."""
        return self._live or nullcontext()

    def say(self, sentence: str) -> None:
        """Print a line that stays; on a terminal it is wrapped between words, in a file not at all.

        The live display is cleared until the next state is drawn: it may be out of date.
        """
        whole = not self.console.is_terminal
        if self._live:
            self._live.update("", refresh=True)
        self.console.print(sentence, highlight=False, markup=False, soft_wrap=whole)

    def show(self, state: State) -> None:
        """Draw the state, unless the last one was drawn too recently."""
        now = time.monotonic()
        if now - self._last < self._every:
            return
        self._last = now
        if self._live:
            self._live.update(self._picture(state), refresh=True)
        else:
            self.say(self._line(state))


class Steps(Protocol):
    """The progress of a run, and what it does when it takes no steps."""

    step: int
    seconds_left: float
    doing: str  # instead of steps; empty while it takes steps
    done: float
    total: float  # 0: unknown

    @property
    def share(self) -> float: ...  # noqa: D102


def steps_picture(label: str, progress: Steps, numbers: str) -> Group:
    """A bar with the time left, and below it the numbers, or what the run does instead of steps."""
    below: RenderableType = Text(progress.doing or numbers, style="dim")
    if progress.doing and progress.total:
        below = bar(progress.doing, progress.done / progress.total)
    if not progress.step:
        return Group(below)
    facts = f"step {progress.step:,}", f"{duration(progress.seconds_left)} left"
    return Group(bar(label, progress.share, *facts), below)


@contextmanager
def watching(console: Console) -> Iterator[Watch]:
    """A progress bar for work without its own screen; without a terminal, a line now and then."""

    def picture(now: tuple[str, float, float]) -> RenderableType:
        what, done, total = now
        return bar(what, done / total) if total else what

    def line(now: tuple[str, float, float]) -> str:
        what, done, total = now
        return f"{what}, {done / total:.0%}" if total else what

    screen = Screen(console, picture, line)
    with screen.running():
        yield Watch(lambda what, done, total: screen.show((what, done, total)), screen.say)


def bar(label: str, share: float, *facts: str) -> Table:
    """One line: a label, a bar, the share that is done, and further facts."""
    table = Table.grid(padding=(0, 1))
    table.add_row(label, ProgressBar(total=1.0, completed=share, width=36), f"{share:4.0%}", *facts)
    return table
