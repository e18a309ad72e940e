"""The folder of a run at its start: what it already holds, its configuration and `about.json`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from gradaccord.runs.about import About, about
from gradaccord.runs.checkpoints import CHECKPOINTS, Checkpoints
from gradaccord.runs.config_files import write_config
from gradaccord.runs.files import CONFIG, RunFolderError
from gradaccord.runs.versioned import Versioned

C = TypeVar("C", bound=BaseModel)
R = TypeVar("R", bound=Versioned)


def results_so_far(
    results: type[R],
    config: C,
    folder: Path,
    resume: bool,
    read_own_config: Callable[[Path], C],
    begun: bool = False,
) -> R | None:
    """The results of a finished run, None for one to do; an error if the folder holds another run.

    begun: a run without a checkpoint counts, too. Else it is ignored: it failed before it began.
    """
    finished = results.exists(folder)
    if not (finished or begun or Checkpoints(folder / CHECKPOINTS).all()):
        return None
    if not resume:
        state = "a finished" if finished else "an unfinished"
        raise RunFolderError(
            f"The run folder {folder} holds {state} run: continue it with --resume, or choose another "
            "--out."
        )
    before = read_own_config(folder / CONFIG)
    if before != config:
        changed = [k for k in type(config).model_fields if getattr(before, k) != getattr(config, k)]
        raise RunFolderError(
            f"The run folder {folder} was started with another `{changed[0]}`: give the same "
            "configuration to --resume, or choose another --out."
        )
    return results.read(folder) if finished else None


def write_start(config: BaseModel, folder: Path, command: list[str] | None, resume: bool) -> None:
    """Write `config.yaml`, and `about.json` unless a resumed run already has one."""
    write_config(config, folder / CONFIG)
    if not resume or not About.exists(folder):
        about(command).write(folder)


def resumed_message(continued: bool, step: int) -> str:
    """The message of a resumed run."""
    if continued:
        return f"Continued at step {step}."
    return "There is no checkpoint that can be read: started from the beginning."
