"""Which functions of the package this process calls."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from types import FrameType

PACKAGE = os.environ.get("MUTANTS_PACKAGE", "")
FOLDER = os.environ.get("MUTANTS_CALLS", "")
CALLED: set[tuple[str, str]] = set()  # file below the package, function or method


def trace(frame: FrameType, event: str, arg: object) -> None:
    """Note a call; functions inside of functions count as those around them."""
    code = frame.f_code
    if code.co_filename.startswith(PACKAGE):
        CALLED.add((code.co_filename[len(PACKAGE) + 1 :], code.co_qualname.partition(".<locals>")[0]))


def start() -> None:
    """Record from now on, in all threads."""
    sys.settrace(trace)
    threading.settrace(trace)


def save() -> None:
    """Leave what this process has called to the one that asked for it."""
    Path(FOLDER, f"{os.getpid()}.json").write_text(json.dumps(sorted(CALLED)))
