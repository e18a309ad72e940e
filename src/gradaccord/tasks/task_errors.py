"""The task's name before the sentence about what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def of_task(name: str) -> Iterator[None]:
    """What is raised inside names the task, once."""
    try:
        yield
    except (ValueError, TypeError) as error:
        sentence = str(error)
        if not sentence.startswith(f"Task {name!r}"):
            sentence = f"Task {name!r}: {sentence}"
        raise ValueError(sentence) from error
