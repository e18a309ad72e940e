"""Exit codes, and errors in one sentence: users' mistakes, missing packages, runs that end early."""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib.util import find_spec
from typing import ParamSpec, TypeVar

import typer

Given = ParamSpec("Given")
Result = TypeVar("Result")

INTERRUPTED = 130  # as a shell reports a program that Ctrl-C ended

# What typer raises for a wrong option or argument; typer's versions define it in different modules.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


# The modules of each extra; those that a command cannot start without come first.
EXTRAS = {
    "train": (
        *("yaml", "accelerate", "transformers", "sklearn", "scipy"),
        *("numpy", "safetensors", "peft", "seqeval", "rouge_score", "pyarrow", "PIL"),
    ),
    "report": ("matplotlib", "jinja2"),
    "demo": ("babel",),
    "sweep": ("optuna",),
    "cluster": ("ray",),
    "torchjd": ("torchjd", "cvxpy", "ecos", "quadprog", "qpsolvers"),
    "datasets": ("datasets",),
    "tensorboard": ("tensorboard",),
}
FIRST = 3  # modules of an extra that `needs` checks


def needs(*extras: str) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """Refuse a command whose extras are not installed, in one sentence that names them."""

    def decorate(command: Callable[Given, Result]) -> Callable[Given, Result]:
        @wraps(command)
        def checked(*args: Given.args, **kwargs: Given.kwargs) -> Result:
            missing = [e for e in extras if any(find_spec(m) is None for m in EXTRAS[e][:FIRST])]
            if missing:
                raise UsageError(f"This command needs more packages: {_install(*missing)}.")
            return command(*args, **kwargs)

        return checked

    return decorate


def missing_package(error: ModuleNotFoundError) -> str:
    """One sentence about a missing package; a message that has the remedy already stays as it is."""
    module = str(error.name).partition(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    if extra is None or "pip install" in str(error):
        return str(error)
    return f"This needs the package {module}: {_install(extra)}."


def _install(*extras: str) -> str:
    return f"pip install 'gradaccord[{','.join(extras)}]'"


def as_sentence(error: Exception) -> str:
    """A user's mistake as the command line prints it."""
    message = " ".join(getattr(error, "format_message", error.__str__)().split())
    return message if message[-1:] in ".?" else f"{message}."


@contextmanager
def user_mistakes(*kinds: type[Exception]) -> Iterator[None]:
    """Turn exceptions that a wrong option or a missing package causes into one sentence each."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(missing_package(error)) from error
    except kinds as error:
        sentence = system_sentence(error) if isinstance(error, OSError) else str(error)
        raise UsageError(with_short_words(sentence)) from error


def with_short_words(sentence: str) -> str:
    """Shorten words of hundreds of characters: a sentence may quote a value of a damaged file."""
    return re.sub(r"(\S{120})\S{160,}(\S{20})", r"\1...\2", sentence)


@contextmanager
def training(say: Callable[[str], None]) -> Iterator[None]:
    """Wrap a run: if it ends early, print why and set the exit code. say: prints after Ctrl-C."""
    from gradaccord.core.failures import ProcessFailedError
    from gradaccord.runs.checkpoints import CheckpointError
    from gradaccord.runs.exceptions import Interrupted, TrainingError
    from gradaccord.runs.ranks import ProcessLostError

    try:
        yield
    except Interrupted as stopped:
        given = [part for part in sys.argv[1:] if part != "--resume"]
        say(f"{stopped} Continue with: {shlex.join(['gradaccord', *given, '--resume'])}")
        raise typer.Exit(INTERRUPTED) from None
    except KeyboardInterrupt:
        say("Interrupted before the first step or after the last one; continue with --resume.")
        raise typer.Exit(INTERRUPTED) from None
    except (TrainingError, CheckpointError, ProcessFailedError, ProcessLostError) as error:
        print(f"gradaccord: {error}", file=sys.stderr)
        raise typer.Exit(1) from None


FULL = "make room, and repeat the command"
RIGHTS = "change its permissions, or choose another place"
REMEDIES = {
    errno.ENOSPC: FULL, errno.EFBIG: FULL,
    errno.EACCES: RIGHTS, errno.EPERM: RIGHTS, errno.EROFS: RIGHTS,
    errno.ENOENT: "check the name", errno.ENOTDIR: "check the name", errno.EISDIR: "give a file",
}  # fmt: skip


def system_sentence(error: OSError) -> str:
    """The system's message with the file and a remedy; our own messages stay as they are."""
    if not error.strerror:
        return str(error)
    if not error.filename and not folder_is_there():
        return GONE
    named = error.filename or ("The disk" if error.errno == errno.ENOSPC else "A file")
    remedy = REMEDIES.get(error.errno or 0)
    return f"{named}: {error.strerror}{f': {remedy}' if remedy else ''}."


GONE = "The current folder was removed: change to another one, and repeat the command."


def folder_is_there() -> bool:
    """Whether the current folder still exists."""
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def check_environment(words: Sequence[str]) -> None:
    """Refuse what no command can work with: a current folder that was removed, names that are not
    UTF-8, and empty arguments. words: the command line."""
    if not folder_is_there():
        raise UsageError(GONE)
    for what, name in (
        ("current folder", os.getcwd()),
        ("variable GRADACCORD_DATA", os.environ.get("GRADACCORD_DATA", "")),
        *(("argument", word) for word in words),
    ):
        shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        if shown != name:
            raise UsageError(f"The {what} {shown!r} is not UTF-8: rename the file or folder.")
    for before, word in zip(("", *words), words, strict=False):
        option, equals, value = word.partition("=")
        if not word or (option.startswith("--") and equals and not value):
            named = before if not word and before.startswith("-") else option
            what = f"The option {named}" if named else "An argument"
            raise UsageError(f"{what} is empty: give it a value, or leave it out.")
