"""The folder of a run: one process at a time, a log that grows, files that are whole or absent."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

from gradaccord.train.tensorboard import Board

CONFIG, LOG, RESULTS, ABOUT = "config.yaml", "log.jsonl", "results.json", "about.json"
MODEL = "model"  # the folder of the model that is kept


class RunFolderError(OSError):
    """A run folder that cannot be used; says why in one sentence."""

    def __str__(self) -> str:
        return str(self.args[0])


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process alone; a second one is refused.

    The lock is the system's: it ends with the process, however that ends.
    """
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("a+")
    except OSError as error:
        raise RunFolderError(
            f"The run folder {folder} cannot be written to ({error.strerror}): choose another --out."
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RunFolderError(
                f"The run folder {folder} is in use by another process: wait for it, or choose "
                "another --out."
            ) from error
        yield


def write_json(path: Path, content: Any) -> None:
    """Write all or nothing."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1, ensure_ascii=False, allow_nan=True)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def read_json(path: Path) -> Any:
    """What `write_json` wrote."""
    with path.open(encoding="utf-8") as file:
        return json.load(file)


class Log:
    """JSON lines, written through every few seconds; cut back to a checkpoint when a run resumes."""

    SECONDS = 2.0

    def __init__(
        self, path: Path | None, resume_at: int | None = None, board: Board | None = None
    ) -> None:
        """path: None for a process that writes nothing. board: is told every record, too."""
        self.file: IO[str] | None = None
        self.board = board
        self._flushed = time.monotonic()
        if path is None:
            return
        if resume_at is None:
            path.unlink(missing_ok=True)
        elif path.exists():
            _cut(path, resume_at)
        self.file = path.open("a", encoding="utf-8")

    def write(self, **record: Any) -> None:
        """Add a record."""
        if self.file is None:
            return
        self.file.write(json.dumps(record, ensure_ascii=False) + "\n")
        if self.board is not None:
            self.board.write(record)
        if time.monotonic() - self._flushed > self.SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write through."""
        if self.file is not None:
            self.file.flush()
        self._flushed = time.monotonic()

    def close(self) -> None:
        """Write through and close."""
        if self.board is not None:
            self.board.close()
        if self.file is not None:
            self.file.close()


def _cut(path: Path, step: int) -> None:
    """Leave out what was logged after a step."""
    kept = [record for record in read_log(path) if record.get("step", 0) <= step]
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in kept)
    os.replace(temporary, path)


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a log; a last line that a kill cut off is left out."""
    records = []
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                break
    return records


def about(command: list[str] | None = None) -> dict[str, Any]:
    """What it takes to run this again: command, versions, machine, state of the source."""
    packages = (
        "gradaccord",
        "torch",
        "transformers",
        "accelerate",
        "tokenizers",
        "numpy",
        "scikit-learn",
    )
    versions = {}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "command": command if command is not None else sys.argv,
        "python": platform.python_version(),
        "versions": versions,
        "system": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "git": _git_hash(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _git_hash() -> str | None:
    """Of the folder that the command was started in; a "+" says that files differ from it."""
    try:
        found = _output("git", "rev-parse", "HEAD")
        changed = _output("git", "status", "--porcelain", "-uno")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{found}+" if changed else found


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    return done.stdout.strip()
