"""The log of a run: JSON lines, written through every few seconds and before every checkpoint."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from gradaccord.runs.files import not_written, write_atomic

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
            with self._writing(path):
                self.file = path.open("a" if append else "w", encoding="utf-8")

    def write(self, **record: Any) -> None:
        """Add a record."""
        if self.file is None:
            return
        with self._writing(Path(self.file.name)):
            self.file.write(json.dumps(record, ensure_ascii=False) + "\n")
        if self.copy is not None:
            self.copy.write(record)
        if time.monotonic() - self._flushed > self.SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write through to the disk."""
        if self.file is not None:
            with self._writing(Path(self.file.name)):
                self.file.flush()
                os.fsync(self.file.fileno())
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
            with self._writing(Path(self.file.name)):
                self.file.close()

    @contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        """Turn a full disk into one sentence."""
        try:
            yield
        except OSError as error:
            raise not_written(path, error, "go on with --resume") from error


def _warn(sentence: str) -> None:
    warnings.warn(sentence, stacklevel=3)


def cut_to_step(path: Path, step: int, say: Callable[[str], None] = _warn) -> None:
    """Remove the records of later steps, and lines that cannot be read."""
    if path.exists():
        kept = [record for record in read_log(path, say) if record.get("step", 0) <= step]
        write_atomic(path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in kept))


def cut_to_size(path: Path, size: int) -> None:
    """Remove what was written after the log had this size."""
    if path.exists():
        os.truncate(path, min(size, path.stat().st_size))


def read_log(path: Path, say: Callable[[str], None] = _warn) -> list[dict[str, Any]]:
    """The records of a log; a last line that a kill cut off is left out.

    say: told which other lines cannot be read; warns by default.
    """
    return list(records(path, say=say))


def records(path: Path, every: int = 1, say: Callable[[str], None] = _warn) -> Iterator[dict[str, Any]]:
    """The same one by one. every: of how many steps one is read; other events are all read."""
    broken = []
    with path.open("rb") as file:
        for number, line in enumerate(file):
            if number % every and STEP in line:
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if isinstance(record, dict):
                yield record
            elif line.endswith(b"\n"):
                broken.append(number + 1)
    if broken:
        more = f" and {len(broken) - 1} more" if broken[1:] else ""
        say(f"{path}, line {broken[0]}{more}: what cannot be read is left out.")
