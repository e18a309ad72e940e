"""Exit codes, and users' mistakes and missing extras as one sentence each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib.util import find_spec
from typing import ParamSpec, TypeVar

import typer

Given = ParamSpec("Given")
Result = TypeVar("Result")

INTERRUPTED = 130  # as a shell reports a program that Ctrl-C ended

# What typer raises for a wrong option or argument. Its versions have it in different modules.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


# What is imported of each extra; what a command cannot start without comes first.
EXTRAS = {
    "train": (
        *("yaml", "accelerate", "transformers", "sklearn", "scipy"),
        *("numpy", "safetensors", "peft", "seqeval", "rouge_score", "pyarrow", "PIL"),
    ),
    "report": ("matplotlib", "jinja2"),
    "demo": ("babel",),
    "sweep": ("optuna",),
    "torchjd": ("torchjd", "cvxpy", "ecos", "quadprog", "qpsolvers"),
    "datasets": ("datasets",),
    "tensorboard": ("tensorboard",),
}
FIRST = 3  # modules of an extra that are looked for


def needs(*extras: str) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """Of a command: refuse it in one sentence that names all its extras that are not installed."""

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
    """One sentence about it; a sentence that has the remedy already stays as it is."""
    module = str(error.name).partition(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    if extra is None or "pip install" in str(error):
        return str(error)
    return f"This needs the package {module}: {_install(extra)}."


def _install(*extras: str) -> str:
    return f"pip install 'gradaccord[{','.join(extras)}]'"


def as_sentence(error: Exception) -> str:
    """What the command line prints of a user's mistake."""
    message = str(getattr(error, "format_message", error.__str__)()).strip()
    return message if message[-1:] in ".?" else f"{message}."


@contextmanager
def user_mistakes(*kinds: type[Exception]) -> Iterator[None]:
    """Turn exceptions that a wrong option or a missing package causes into one sentence each."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(missing_package(error)) from error
    except kinds as error:
        sentence = str(error)
        if isinstance(error, OSError) and error.strerror:
            named = f"{error.filename}: " if error.filename else ""
            sentence = f"{named}{error.strerror}."
        raise UsageError(sentence) from error
