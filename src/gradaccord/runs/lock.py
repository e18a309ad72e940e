"""The lock of a run folder: one process at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from gradaccord.runs.files import RunFolderError
from gradaccord.runs.interrupts import PARENT, orphaned

T = TypeVar("T")
PATIENCE = 600.0  # seconds for which a run of a comparison waits


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder for this process; a second one is refused.

    The operating system drops the lock when the process ends, however it ends. A run of a comparison
    or a sweep waits: the run of a killed command keeps the lock until it has saved.
    """
    lock = FileLock(folder / ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=PATIENCE if PARENT in os.environ and not orphaned() else 0)
    except Timeout as error:
        raise RunFolderError(
            f"The run folder {folder} is in use by another process: wait for it, or choose "
            "another --out."
        ) from error
    except OSError as error:
        raise RunFolderError(
            f"The run folder {folder} cannot be written to ({error.strerror}): choose another --out."
        ) from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def locked_by_main(folder: Path, accelerator: Any, inspect: Callable[[], T]) -> Iterator[T]:
    """Lock the folder in the main process, and give every process what `inspect` returned there.

    What `inspect` raises is raised in every process, so that none waits for one that has ended.
    """
    with ExitStack() as stack:
        found: list[Any] = [None, None]
        if accelerator.is_main_process:
            try:
                stack.enter_context(locked(folder))
                found[0] = inspect()
            except (OSError, ValueError) as error:
                found[1] = error
        if accelerator.num_processes > 1:
            from accelerate.utils import broadcast_object_list

            broadcast_object_list(found)
        if found[1] is not None:
            raise found[1]
        yield found[0]
