"""Which functions of the package this process calls."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import TextIO

PACKAGE = os.environ.get("MUTANTS_PACKAGE", "")
FOLDER = os.environ.get("MUTANTS_CALLS", "")
CALLED: set[tuple[str, str]] = set()  # file below the package, function or method
COPY: list[TextIO] = []  # a file for each new call, in processes that may end without a word


def trace(frame: FrameType, event: str, arg: object) -> None:
    """Note a call; functions inside of functions count as those around them."""
    code = frame.f_code
    if code.co_filename.startswith(PACKAGE):
        call = (code.co_filename[len(PACKAGE) + 1 :], code.co_qualname.partition(".<locals>")[0])
        if call not in CALLED:
            CALLED.add(call)
            for file in COPY:
                file.write(f"{call[0]} {call[1]}\n")


def start(copy: bool = False) -> None:
    """Record from now on, in all threads. copy: for the process that asked for it."""
    if copy:
        COPY.append(Path(FOLDER, str(os.getpid())).open("a", buffering=1))  # noqa: SIM115
    sys.settrace(trace)
    threading.settrace(trace)
