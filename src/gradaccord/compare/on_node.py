"""What a cluster node does for a run: train it in a process, and send back the files it writes."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gradaccord.compare.processes import start_process
from gradaccord.runs.files import write_atomic
from gradaccord.version import __version__

EVERY = 1.0  # seconds between two reports
SHARE = 0.05  # of the time, at most, that sending files may take


@dataclass(frozen=True)
class Changes:
    """What has changed in a folder: the contents of new and changed files, and the names of all."""

    new: Mapping[str, bytes]
    present: frozenset[str]

    def apply(self, folder: Path) -> None:
        """Bring another copy of the folder up to date."""
        for name in sorted(_files(folder).keys() - self.present):
            (folder / name).unlink()
            _remove_empty((folder / name).parent, folder)
        for name, content in self.new.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomic(folder / name, content)


class Copier:
    """Finds what has changed in a folder since it last looked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen: dict[str, tuple[int, int]] = {}

    def changes(self) -> Changes | None:
        """None if there are none, or if files came and went while they were read."""
        before = _files(self.folder)
        if before == self._seen:
            return None
        try:
            changed = [name for name, stamp in before.items() if self._seen.get(name) != stamp]
            new = {name: (self.folder / name).read_bytes() for name in changed}
        except OSError:
            return None
        if _files(self.folder).keys() != before.keys():  # a checkpoint and what it needs stay together
            return None
        self._seen = before
        return Changes(new, frozenset(before))


@dataclass(frozen=True)
class Order:
    """What a node is told about a run.

    folder: where the command has it. mark: a file beside it, and what it holds: a node that reads the
    same there sees the command's files, and trains in that folder.
    """

    folder: Path
    mark: tuple[Path, str]
    data: Path | None
    threads: int
    version: str = __version__


Report = Callable[[Changes | None], int]  # sends changes; returns how often the command asked to stop


def train_on_node(order: Order, files: Callable[[], Changes], report: Report) -> int:
    """Train until the run ends; its exit code.

    files: returns all files of the command's folder; called if this node does not see the folder.
    """
    if order.version != __version__:
        raise ValueError(
            f"gradaccord is {__version__} on this node and {order.version} where the command runs: "
            "install the same on both."
        )
    data = order.data if order.data is not None and order.data.exists() else None
    with _place(order, files) as (folder, copier):
        if hasattr(signal, "pthread_sigmask"):  # Ray blocks it, and processes inherit that
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        process = start_process(folder, data, order.threads)
        told, pause = 0, EVERY
        try:
            while process.poll() is None:
                _wait(process, pause)
                began = time.monotonic()
                asked = report(copier.changes() if copier else None)
                pause = max(EVERY, (time.monotonic() - began) / SHARE)
                if asked > told:
                    # What a shell starts in the background ignores SIGINT, a node's processes too.
                    process.send_signal(signal.SIGINT if told else signal.SIGTERM)
                    told = asked
        except BaseException:  # the task was cancelled, or the command has gone
            process.terminate()
            process.wait()
            raise
        if copier:
            report(copier.changes())
        return process.returncode


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


@contextmanager
def _place(order: Order, files: Callable[[], Changes]) -> Iterator[tuple[Path, Copier | None]]:
    """The folder to train in: the command's if seen here, else a temporary one with its copier."""
    path, text = order.mark
    try:
        seen = path.read_text() == text
    except OSError:
        seen = False
    if seen:
        yield order.folder, None
        return
    with tempfile.TemporaryDirectory(prefix="gradaccord-") as own:
        folder = Path(own) / order.folder.name
        folder.mkdir()
        copier = Copier(folder)
        files().apply(folder)
        copier.changes()
        yield folder, copier


def all_files(folder: Path) -> Changes:
    """All files of a folder, as changes to an empty one: what a node starts from."""
    return Copier(folder).changes() or Changes({}, frozenset())


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """Names of the files, with time and size; without locks and files that are half written."""
    found = {}
    for place, folders, names in os.walk(folder):  # skips folders that vanish meanwhile
        folders[:] = filter(_is_whole, folders)
        for path in (Path(place, name) for name in names if _is_whole(name)):
            with suppress(OSError):
                stat = path.stat()
                found[path.relative_to(folder).as_posix()] = stat.st_mtime_ns, stat.st_size
    return found


def _is_whole(name: str) -> bool:
    return not name.startswith(".") and not name.endswith((".tmp", ".old", ".gone"))


def _remove_empty(folder: Path, top: Path) -> None:
    """Remove a folder that has become empty, and those above it."""
    with suppress(OSError):
        while folder != top:
            folder.rmdir()
            folder = folder.parent
