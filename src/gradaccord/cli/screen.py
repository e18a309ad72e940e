"""A live picture on a terminal, or a line now and then where there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Generic, TypeVar

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from gradaccord.core.watch import Watch

State = TypeVar("State")


class Screen(Generic[State]):
    """Hand `show` to long work as its callback while `running()` is entered.

    picture: a state as drawn on a terminal; line: the same for a file. Each is drawn at most once in
    `refresh` or `line_every` seconds.
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
        """Keeps the live picture on the terminal; does nothing where there is none."""
        return self._live or nullcontext()

    def say(self, sentence: str) -> None:
        """A line that stays; on a terminal it is broken between words, in a file not at all."""
        whole = not self.console.is_terminal
        self.console.print(sentence, highlight=False, markup=False, soft_wrap=whole)

    def show(self, state: State) -> None:
        """Draw, if it is time to."""
        now = time.monotonic()
        if now - self._last < self._every:
            return
        self._last = now
        if self._live:
            self._live.update(self._picture(state), refresh=True)
        else:
            self.say(self._line(state))


@contextmanager
def watching(console: Console) -> Iterator[Watch]:
    """For work that has no screen of its own: a bar while it goes on, or a line now and then."""

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
    """One line: a label, a bar, the share done, and what else there is to say."""
    table = Table.grid(padding=(0, 1))
    table.add_row(label, ProgressBar(total=1.0, completed=share, width=36), f"{share:4.0%}", *facts)
    return table
