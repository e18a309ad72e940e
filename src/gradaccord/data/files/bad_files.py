"""The one place where any error of a library over a file becomes a sentence with file and remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

ELSEWHERE = "make room or choose another place, and repeat the command"
LONGEST = 160  # characters of a library's own words
BEGIN, END = 500, 200  # characters of a sentence of ours


@contextmanager
def reading(file: object, remedy: str = "fetch it again, or repair it") -> Iterator[None]:
    """Whatever goes wrong inside is the fault of a file: a ValueError that names it and the remedy.

    file: what errors call it. A missing package passes as it is; so does a sentence of our own, with
    the file before it if it does not name it.
    """
    try:
        yield
    except ModuleNotFoundError:
        raise
    except Exception as error:
        if _is_ours(error):
            named = str(error) if str(file) in str(error) else f"{file}: {error}"
            if named == _shortened(named) == str(error):
                raise
            raise ValueError(_shortened(named)) from error
        raise ValueError(f"{file} cannot be read ({reason(error)}): {remedy}.") from error


@contextmanager
def writing(file: object, remedy: str = ELSEWHERE) -> Iterator[None]:
    """What the system says inside, also by way of safetensors, becomes a sentence with the remedy."""
    try:
        yield
    except Exception as error:
        ours = isinstance(error, OSError) and error.strerror is None
        if ours or not (isinstance(error, OSError) or type(error).__name__ == "SafetensorError"):
            raise
        found = re.search(r"I/O error: (.*) \(os error", str(error))  # in what safetensors says
        why = found[1] if found else reason(error)
        raise OSError(f"{file} cannot be written ({why}): {remedy}.") from error


def _is_ours(error: Exception) -> bool:
    """Whether it is a sentence already: libraries raise their own types, or no whole sentence."""
    ours = type(error) is ValueError or type(error).__module__.startswith("gradaccord.")
    return ours and str(error).endswith((".", "?")) and "\n" not in str(error)


def _shortened(sentence: str) -> str:
    """A sentence that quotes a whole file, without its middle."""
    if len(sentence) <= BEGIN + END:
        return sentence
    return f"{sentence[:BEGIN]} ... {sentence[-END:]}"


def reason(error: BaseException) -> str:
    """What a library says, in one short line behind the kind of its error."""
    told = getattr(error, "strerror", None) or error
    words = " ".join(str(told).split()).rstrip(".")
    words = words if len(words) <= LONGEST else f"{words[: LONGEST - 3]}..."
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
