"""What became of a bad input: taken, or refused in one sentence as the command line prints it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradaccord.cli.exit_codes import UsageError, as_sentence, user_mistakes

LONGEST = 1000


def refusal(read: Callable[[], Any]) -> str | None:
    """The sentence that ends a command with exit code 2; None: taken. Any other exception goes on."""
    try:
        with user_mistakes(ValueError, OSError, ModuleNotFoundError):
            read()
    except UsageError as error:
        ours = type(error) is UsageError and error.__cause__ is not None  # else typer's
        sentence = str(error) if ours else as_sentence(error)
        assert sentence.endswith((".", "?", ".)")), f"no sentence: {sentence!r}"
        assert "\n" not in sentence, f"more than one line: {sentence!r}"
        assert len(sentence) <= LONGEST, f"{len(sentence)} characters: {sentence[:200]!r}"
        return sentence
    return None
