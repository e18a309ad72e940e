"""The log of a run: JSON lines, flushed to disk every few seconds and before every checkpoint."""

from __future__ import annotations

import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, Any, Protocol

from gradaccord.runs.files import not_written, write_atomic
from gradaccord.runs.results import EvaluationRecord

STEP = b'"event": "step"'  # as `Log` writes it
TAIL = 8192  # bytes


@dataclass
class StepRecord:
    """One step of training. Fields that a line of the log lacks have their defaults."""

    step: int = 0
    phase: str = ""
    share: float = 0.0  # of the phase that is done
    gradients: float = math.nan  # batch gradients so far
    seconds: float = math.nan
    lr: float = math.nan
    loss: dict[str, float] = field(default_factory=dict)  # by task
    # Of the tasks' gradients; None for one task.
    cosine: float | None = None
    conflicts: float | None = None
    dot: float | None = None
    extras: dict[str, float] | None = None  # of the method and the regularisers

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> StepRecord | None:
        """The step that a line of the log holds; None if it is not a step of training."""
        if record.get("event") != "step":
            return None
        own = {name: record[name] for name in _FIELDS if record.get(name) is not None}
        try:
            for name in _NUMBERS & own.keys():
                own[name] = float(own[name])
            own["loss"] = {task: float(loss) for task, loss in own.get("loss", {}).items()}
        except (TypeError, ValueError, AttributeError, OverflowError):
            return None
        return cls(**own)

    @property
    def mean_loss(self) -> float:
        """The mean over tasks; NaN if there is none, or the sum is not a number."""
        try:
            return math.fsum(self.loss.values()) / len(self.loss)
        except (ArithmeticError, ValueError):
            return math.nan

    def to_json(self) -> dict[str, Any]:
        """Plain values, as a line of the log."""
        return {"event": "step"} | {name: v for name, v in vars(self).items() if v is not None}


_FIELDS = tuple(each.name for each in fields(StepRecord))
_NUMBERS = frozenset(_FIELDS) - {"step", "phase", "loss", "extras"}


def is_evaluation(record: Mapping[str, Any]) -> bool:
    """Whether a record is an `EvaluationRecord`."""
    return record.get("event") == "evaluation"


class LogCopy(Protocol):
    """A second log of every step and evaluation, e.g. TensorBoard."""

    def write(self, record: StepRecord | EvaluationRecord) -> None:
        """Add a record."""

    def close(self) -> None:
        """Flush and close."""


class Log:
    """Writes records to a file.

    path: None for a process that writes nothing.
    append: keep what is there; `cut_to_step` or `cut_to_size` first removes what a killed run logged
        after its checkpoint. Else begin a new log.
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
        if time.monotonic() - self._flushed > self.SECONDS:
            self.flush()

    def add(self, record: StepRecord | EvaluationRecord) -> None:
        """Add a record of training here and to the copy."""
        self.write(**record.to_json())
        if self.copy is not None:
            self.copy.write(record)

    def flush(self) -> None:
        """Flush to the disk."""
        if self.file is not None:
            with self._writing(Path(self.file.name)):
                self.file.flush()
                os.fsync(self.file.fileno())
        self._flushed = time.monotonic()

    def size(self) -> int:
        """Bytes written so far; a checkpoint keeps the number for `cut_to_size`."""
        self.flush()
        return 0 if self.file is None else os.fstat(self.file.fileno()).st_size

    def close(self) -> None:
        """Flush and close."""
        if self.copy is not None:
            self.copy.close()
        if self.file is not None:
            with self._writing(Path(self.file.name)):
                self.file.close()

    @contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        """Turn the error of a full disk into one sentence."""
        try:
            yield
        except OSError as error:
            raise not_written(path, error, "continue with --resume") from error


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


def tail(path: Path) -> list[str]:
    """The last lines of a file that may be being written; the first of them may be cut off."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - TAIL, 0))
            return file.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []


def read_log(path: Path, say: Callable[[str], None] = _warn) -> list[dict[str, Any]]:
    """The records of a log; a last line that a kill cut off is left out.

    say: called with the other lines that cannot be read; warns by default.
    """
    return list(records(path, say=say))


def records(path: Path, every: int = 1, say: Callable[[str], None] = _warn) -> Iterator[dict[str, Any]]:
    """The records of a log, one by one. every: read one in this many steps, and all other events."""
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
        say(f"{path}, line {broken[0]}{more}: unreadable lines are left out.")
