"""`about.json`, what is needed to repeat a run: command, versions, machine, commit."""

from __future__ import annotations

import os
import platform
import sys
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from gradaccord.runs.files import ABOUT
from gradaccord.runs.git import commit
from gradaccord.runs.versioned import Versioned

PACKAGES = ("gradaccord", "torch", "transformers", "accelerate", "tokenizers", "numpy", "scikit-learn")


class About(Versioned):
    """The content of `about.json`; fields that a file lacks are empty."""

    FILE: ClassVar[str] = ABOUT

    command: list[str] = Field(default_factory=list)
    python: str | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    system: str | None = None
    processor: str | None = None
    cores: int | None = None
    git: str | None = None
    started: str = ""


def read_about(folder: Path) -> About:
    """The content of `about.json` in a run's folder; empty if there is none."""
    return About.read(folder) if About.exists(folder) else About()


def about(command: list[str] | None = None) -> About:
    """The state of this moment, to be recorded. command: default: this process's."""
    versions = {}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return About(
        command=command if command is not None else sys.argv,
        python=platform.python_version(),
        versions=versions,
        system=platform.platform(),
        processor=platform.machine(),
        cores=os.cpu_count(),
        git=commit(),
        started=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    )
