"""What all commands share: exit codes, mistakes turned into one sentence, how durations are written."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import typer

INTERRUPTED = 130  # as a shell reports a program that Ctrl-C ended

# What typer raises for a wrong option or argument. Its versions have it in different modules.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


@contextmanager
def user_mistakes(*kinds: type[Exception]) -> Iterator[None]:
    """Turn exceptions that a wrong option or a missing package causes into one sentence each."""
    try:
        yield
    except kinds as error:
        sentence = str(error)
        if isinstance(error, OSError) and error.strerror:
            named = f"{error.filename}: " if error.filename else ""
            sentence = f"{named}{error.strerror}."
        raise UsageError(sentence) from error


def duration(seconds: float) -> str:
    """1:05, or 1:02:05."""
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
