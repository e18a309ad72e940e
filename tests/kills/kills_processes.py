"""Commands in processes that can be killed: forked from one that has imported all, or started anew."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

PAUSE = 0.0005  # seconds between two looks at a folder


@dataclass
class Session:
    """A command that is running, the leader of a process group of its own."""

    pid: int
    began: float

    def ended(self, *, wait: bool = False) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        found, status = os.waitpid(self.pid, 0 if wait else os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if found else None

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self.began

    def started(self) -> list[psutil.Process]:
        """The processes that it has started."""
        return psutil.Process(self.pid).children(recursive=True)

    def kill(self, *, others: bool) -> int:
        """kill -9 of the group, and of all processes that it started, if wanted; the exit code."""
        started = self.started() if others else []
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:  # just forked, and not yet the leader of its group
            os.kill(self.pid, signal.SIGKILL)
        for process in started:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(started, timeout=10)
        code = self.ended(wait=True)
        assert code is not None
        return code


def forked(call: Callable[[], object], output: Path) -> Session:
    """A call in a process of its own, with everything imported already."""
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setsid()
            _write_to(output)
            call()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return Session(pid, began)


def command(arguments: Sequence[str], output: Path, cache: Path) -> Session:
    """`gradaccord` with these arguments, forked."""

    def call() -> None:
        from gradaccord.cli.app import main

        warnings.resetwarnings()
        os.environ["GRADACCORD_CACHE"] = str(cache)
        sys.argv = ["gradaccord", *arguments]
        main(arguments)

    return forked(call, output)


def fresh_command(arguments: Sequence[str], output: Path, cache: Path) -> Session:
    """The same as a user starts it: an interpreter that imports everything, with its own hash seed."""
    with output.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "gradaccord", *arguments],
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "GRADACCORD_CACHE": str(cache)},
        )
    process.returncode = 0  # it is waited for by its number
    return Session(process.pid, time.monotonic())


def import_all_of(call: Callable[[], object], output: Path) -> None:
    """Import here what a call imports, without calling it here: its threads and state stay away."""
    reading, writing = os.pipe()

    def told() -> None:
        try:
            call()
        finally:
            os.write(writing, "\n".join(sys.modules).encode())

    session = forked(told, output)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        names = pipe.read().decode().split("\n")
    if session.ended(wait=True) != 0:
        raise RuntimeError(f"The first run failed: {output.read_text()[-2000:]}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            if not name.startswith("__"):
                with suppress(Exception):  # a name that another module made up
                    importlib.import_module(name)


def wait_for_moment(session: Session, seconds: float) -> int | None:
    """Until it has run for so long; its exit code if it ended before."""
    while session.seconds < seconds:
        if (code := session.ended()) is not None:
            return code
        time.sleep(min(0.01, max(seconds - session.seconds, PAUSE)))
    return None


def wait_for_saving(session: Session, folder: Path, times: int) -> int | None:
    """Until it is writing a file or checkpoint for the n-th time; its exit code if it ended before."""
    seen: set[tuple[str, int]] = set()
    while len(seen) < times:
        if (code := session.ended()) is not None:
            return code
        seen |= set(_unfinished(folder))
        time.sleep(PAUSE)
    return None


def wait_for_end(processes: list[psutil.Process]) -> None:
    """Of processes that were left alone by a kill: nothing is removed under them."""
    _, alive = psutil.wait_procs(processes, timeout=60)
    for process in alive:
        process.kill()


def _unfinished(folder: Path) -> list[tuple[str, int]]:
    """What is being written below a folder: its path and number on the disk."""
    found = []
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if name.endswith((".tmp", ".old", "-journal")):
                try:
                    path = os.path.join(place, name)
                    found.append((path, os.stat(path).st_ino))
                except OSError:
                    continue
    return found


def _write_to(output: Path) -> None:
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(file, number)
    os.close(file)
