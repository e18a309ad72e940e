"""Progress of long work: two callbacks that are passed on together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Watch:
    """at: what is being done, how much of it is done, of how much (0: unknown). say: a sentence."""

    at: Callable[[str, float, float], None] = lambda what, done, total: None
    say: Callable[[str], None] = lambda sentence: None

    def each(self, what: str, items: Iterable[T], total: int, every: int = 1024) -> Iterator[T]:
        """The items, counted on the way."""
        for done, item in enumerate(items):
            if done % every == 0:
                self.at(what, done, total)
            yield item

    def counter(self, what: str, total: int) -> Callable[[int], None]:
        """A function to call with how many more are done."""
        done = 0

        def count(more: int) -> None:
            nonlocal done
            done += more
            self.at(what, done, total)

        return count


NOBODY = Watch()
