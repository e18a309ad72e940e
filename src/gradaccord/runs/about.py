"""What it takes to run something again: command, versions, machine, state of the source."""

from __future__ import annotations

import os
import platform
import sys
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gradaccord.runs.files import ABOUT, AGAIN, read_json
from gradaccord.runs.git import commit

PACKAGES = ("gradaccord", "torch", "transformers", "accelerate", "tokenizers", "numpy", "scikit-learn")


def about(command: list[str] | None = None) -> dict[str, Any]:
    """The content of `about.json`. command: this process's unless given."""
    versions = {}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {
        "command": command if command is not None else sys.argv,
        "python": platform.python_version(),
        "versions": versions,
        "system": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "git": commit(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def read_about(folder: Path) -> dict[str, Any]:
    """What is known of a run in its folder; empty where nothing was kept."""
    path = folder / ABOUT
    found = read_json(path) if path.exists() else {}
    command = found.get("command") if isinstance(found, dict) else None
    if not (
        isinstance(found, dict)
        and isinstance(found.get("versions", {}), dict)
        and (
            command is None or (isinstance(command, list) and all(isinstance(w, str) for w in command))
        )
    ):
        raise ValueError(f"{path} is damaged (it has no command and versions): {AGAIN}.")
    return found
