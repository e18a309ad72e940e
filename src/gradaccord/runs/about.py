"""What it takes to run something again: command, versions, machine, state of the source."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

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
        "git": _git_hash(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _git_hash() -> str | None:
    """The commit of the working directory; a "+" marks uncommitted changes."""
    try:
        found = _output("git", "rev-parse", "HEAD")
        changed = _output("git", "status", "--porcelain", "-uno")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{found}+" if changed else found


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    return done.stdout.strip()
