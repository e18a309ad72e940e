"""The log of a run: JSON lines, written through every few seconds."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Protocol

from gradaccord.runs.files import write_atomic

STEP = b'"event": "step"'  # as `Log` writes it


class LogCopy(Protocol):
    """A second place for every record, e.g. TensorBoard."""

    def write(self, record: Mapping[str, Any]) -> None:
        """Add a record."""

    def close(self) -> None:
        """Write through and close."""


class Log:
    """Appends records to a file; what a killed run logged after its checkpoint is cut off first.

    path: None for a process that writes nothing.
    append: keep what is there (see `cut_to_step` and `cut_to_size`); else begin a new log.
    """

    SECONDS = 2.0  # between two writes to the disk

    def __init__(self, path: Path | None, *, append: bool = False, copy: LogCopy | None = None) -> None:
        self.file: IO[str] | None = None
        self.copy = copy
        self._flushed = time.monotonic()
        if path is not None:
            self.file = path.open("a" if append else "w", encoding="utf-8")

    def write(self, **record: Any) -> None:
        """Add a record."""
        if self.file is None:
            return
        self.file.write(json.dumps(record, ensure_ascii=False) + "\n")
        if self.copy is not None:
            self.copy.write(record)
        if time.monotonic() - self._flushed > self.SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write through."""
        if self.file is not None:
            self.file.flush()
        self._flushed = time.monotonic()

    def size(self) -> int:
        """Bytes written so far: what a checkpoint notes for `cut_to_size`."""
        self.flush()
        return 0 if self.file is None else os.fstat(self.file.fileno()).st_size

    def close(self) -> None:
        """Write through and close."""
        if self.copy is not None:
            self.copy.close()
        if self.file is not None:
            self.file.close()


def cut_to_step(path: Path, step: int) -> None:
    """Remove the records of later steps, and a last line that is not whole."""
    if path.exists():
        kept = [record for record in read_log(path) if record.get("step", 0) <= step]
        write_atomic(path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in kept))


def cut_to_size(path: Path, size: int) -> None:
    """Remove what was written after the log had this size."""
    if path.exists() and path.stat().st_size > size:
        os.truncate(path, size)


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a log; a last line that a kill cut off is left out."""
    return list(records(path))


def records(path: Path, every: int = 1) -> Iterator[dict[str, Any]]:
    """The same one by one. every: of how many steps one is read; other events are all read."""
    with path.open("rb") as file:
        for number, line in enumerate(file):
            if number % every and STEP in line:
                continue
            try:
                yield json.loads(line.decode())
            except ValueError:
                break
