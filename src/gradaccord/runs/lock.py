"""A run folder held by the first process, and what it found there told to all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from gradaccord.runs.files import locked

T = TypeVar("T")


@contextmanager
def held(folder: Path, accelerator: Any, look: Callable[[], T]) -> Iterator[T]:
    """Lock the folder, and give every process what `look` returned in the first one.

    What it raises is raised in every process: none is left waiting for another that has gone.
    """
    with ExitStack() as stack:
        found: list[Any] = [None, None]
        if accelerator.is_main_process:
            try:
                stack.enter_context(locked(folder))
                found[0] = look()
            except (OSError, ValueError) as error:
                found[1] = error
        if accelerator.num_processes > 1:
            from accelerate.utils import broadcast_object_list

            broadcast_object_list(found)
        if found[1] is not None:
            raise found[1]
        yield found[0]
