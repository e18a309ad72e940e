"""The checkpoints of a few-shot run and the best weights they refer to: read and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gradaccord.runs.checkpoints import CHECKPOINTS, CheckpointError, Checkpoints, checksum
from gradaccord.runs.files import RunFolderError, read_tensors

OLD_CHECKPOINT = "checkpoint.pt"  # of release 0.1, which had a single one


def read_states(folder: Path, say: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    """The states of a run's checkpoints that can be read, the newest first, by name.

    Empty if there are no checkpoints; raises if there are some and none can be read.
    """
    states, damaged = {}, []
    for path, state in Checkpoints(folder / CHECKPOINTS).latest():
        if isinstance(state, dict):
            states[path.name] = state
        else:
            damaged.append(f"The checkpoint {path.name} is skipped: {state}")
    old = folder / OLD_CHECKPOINT
    if not states and old.exists():
        try:
            states[old.name] = read_tensors(old)
        except Exception as error:
            damaged.append(f"{old} cannot be read: {error}")
    if damaged and not states:
        raise RunFolderError(
            f"No checkpoint of the run in {folder} can be read: start again in a new folder. "
            f"{damaged[0]}"
        )
    for sentence in damaged:
        say(sentence)
    return states


def newest_with_best(
    folder: Path, states: Mapping[str, dict[str, Any]], say: Callable[[str], None]
) -> str:
    """The newest whose best weights are intact; if none is, the newest of all, with a message."""
    for name, state in states.items():
        lost = lost_best(folder, state)
        if not lost:
            return name
        first = next(iter(lost.values()))
        say(f"The checkpoint {name} is skipped: its best weights cannot be read: {first}")
    newest = next(iter(states))
    gone = ", ".join(map(str, lost_best(folder, states[newest])))
    say(
        f"No other is intact: the run goes on from {newest} without its best weights of iteration "
        f"{gone}; from there on the best are chosen again."
    )
    return newest


def lost_best(folder: Path, state: Mapping[str, Any]) -> dict[int, CheckpointError]:
    """Which of the best weights that a checkpoint refers to are damaged or gone, and why."""
    found, sums = {}, state.get("best_sums", {})
    for iteration in (int(iteration) for _, iteration in state["best"]):
        try:
            _check_best(folder / f"best-{iteration}.pt", sums.get(iteration))
        except CheckpointError as error:
            found[iteration] = error
    return found


def _check_best(path: Path, sum: int | None) -> None:
    """sum: None in checkpoints of earlier versions, which kept none."""
    try:
        if sum is not None and checksum(path) != sum:
            raise CheckpointError(f"{path} is damaged (its checksum differs).")
        if sum is None:
            read_tensors(path)
    except CheckpointError:
        raise
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is gone.") from error
    except Exception as error:
        why = " ".join(str(error).split())[:200].rstrip(".")
        raise CheckpointError(f"{path} cannot be read ({why}).") from error


def read_best(folder: Path, iteration: int, sum: int | None) -> dict[str, Any]:
    """The learner's state at one of the best validations. sum: its checksum, if it was kept."""
    path = folder / f"best-{iteration}.pt"
    try:
        _check_best(path, sum)
        state: dict[str, Any] = read_tensors(path)
    except CheckpointError as error:
        raise RunFolderError(
            f"The best weights cannot be used: {str(error).rstrip('.')}: continue with "
            f"gradaccord fewshot train --resume {folder.parent}."
        ) from error
    return state
