"""A server process that has imported everything, and forks runs, so that none waits for imports.

    python -m gradaccord.compare.fork_server

It reads one order per line, and answers with the id of the run's process and later with its exit
code. It ends with the process that started it; its runs, whose parent it is, then save and end.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import select
import subprocess
import sys
import time
import traceback
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import psutil
import torch

from gradaccord.runs.interrupts import PARENT

# What a training run imports, the slowest imports among it.
IMPORTED = (
    *("gradaccord.cli.app", "gradaccord.cli.train_screen", "gradaccord.train.run"),
    *("accelerate", "transformers", "torch._dynamo", "torch.distributed.tensor", "numpy"),
)
POLL = 0.1  # seconds between two checks of the runs
LOST = 1  # the exit code of a run whose server was killed


def can_fork() -> bool:
    """Whether runs may be forked: not every system can, and an accelerator does not survive it."""
    return sys.platform == "linux" and not torch.accelerator.is_available()


class ForkServer:
    """The client, which asks for runs. The server process begins with the first of them."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._codes: dict[int, int] = {}
        self._started: list[int] = []
        self._rest = b""

    def start(
        self, arguments: Sequence[str], output: Path, environment: dict[str, str], threads: int
    ) -> Forked:
        """`gradaccord` with these arguments in a process of its own."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**environment, "OMP_NUM_THREADS": "1"},  # no thread may run before a fork
                start_new_session=True,
            )
            weakref.finalize(self, _end, self._process)
        order = {
            "arguments": list(arguments),
            "output": str(output.absolute()),
            "folder": os.getcwd(),
            "environment": environment,
            "threads": threads,
        }
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # then no answer comes
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        while not self._started:
            if not self._read(wait=True):
                raise OSError("The process that starts runs has ended: repeat the command.")
        return Forked(self, self._started.pop())

    def code_of(self, pid: int) -> int | None:
        """A run's exit code; None while it is going."""
        alive = self._read(wait=False)
        if pid not in self._codes and not alive and not psutil.pid_exists(pid):
            self._codes[pid] = LOST
        return self._codes.get(pid)

    def _read(self, *, wait: bool) -> bool:
        """Read the answers that have come; returns whether more may come."""
        assert self._process is not None
        assert self._process.stdout is not None
        file = self._process.stdout.fileno()
        while select.select([file], [], [], None if wait else 0)[0]:
            found = os.read(file, 1 << 16)
            if not found:
                return False
            *lines, self._rest = (self._rest + found).split(b"\n")
            for pid, code in map(json.loads, lines):
                if code is None:
                    self._started.append(pid)
                else:
                    self._codes[pid] = code
            wait = False
        return True


def _end(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    assert server.stdout is not None
    with suppress(OSError):
        server.stdin.close()
    server.wait()
    server.stdout.close()


class Forked:
    """A run that was forked, with what `subprocess.Popen` offers."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.server, self.pid = server, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it is going."""
        if self.returncode is None:
            self.returncode = self.server.code_of(self.pid)
        return self.returncode

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless the run has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def wait(self) -> int:
        """Wait until it has ended; its exit code."""
        while (code := self.poll()) is None:
            time.sleep(POLL)
        return code


def serve() -> None:
    """Fork a run for every order, until standard input is closed."""
    answers = os.dup(1)
    os.dup2(2, 1)  # answers are not mixed with what a module prints
    for name in IMPORTED:
        with suppress(ImportError):  # the run itself reports what is missing
            importlib.import_module(name)
    going: set[int] = set()
    rest = b""

    def answer(pid: int, code: int | None) -> None:
        os.write(answers, json.dumps([pid, code]).encode() + b"\n")

    while True:
        if select.select([0], [], [], POLL)[0]:
            found = os.read(0, 1 << 16)
            if not found:
                return
            *lines, rest = (rest + found).split(b"\n")
            for line in lines:
                pid = os.fork()
                if pid == 0:
                    os.close(answers)
                    _run(**json.loads(line))
                going.add(pid)
                answer(pid, None)
        for pid in list(going):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                going.remove(pid)
                answer(pid, os.waitstatus_to_exitcode(status))


def _run(
    arguments: list[str], output: str, folder: str, environment: dict[str, str], threads: int
) -> NoReturn:
    """In the fork: what `python -m gradaccord` does with these arguments."""
    code: Any = 1
    try:
        os.setsid()  # Ctrl-C reaches it only through the comparison, once
        for target, path, mode in ((0, os.devnull, os.O_RDONLY), (1, output, os.O_WRONLY)):
            file = os.open(path, mode | os.O_CREAT | os.O_APPEND, 0o666)
            os.dup2(file, target)
            os.close(file)
        os.dup2(1, 2)
        os.environ.clear()
        os.environ.update(environment | {PARENT: str(os.getppid())})
        os.chdir(folder)
        torch.set_num_threads(threads)
        sys.argv = ["gradaccord", *arguments]
        runpy.run_module("gradaccord", run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    serve()
