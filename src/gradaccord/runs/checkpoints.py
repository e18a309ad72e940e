"""Checkpoints: written atomically, checked when read, with the previous one to fall back on."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from gradaccord.runs.files import (
    RunFolderError,
    read_json,
    read_tensors,
    sync_folder,
    system_reason,
    write_json,
    write_tensors,
)

CHECKPOINTS = "checkpoints"  # the folder inside a run folder
STATE = "state-{rank}.pt"
SUMS = "sums.json"
NEW, OLD, GONE = ".tmp", ".old", ".gone"  # endings of checkpoints being written, replaced, removed


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be read."""


class Checkpoints:
    """The checkpoints of a run, `step-000123` and so on, below one folder.

    keep: how many are kept. serves: other checkpoints that need these; for each of them, the newest of
    these up to its step is kept, too.
    """

    def __init__(self, folder: Path, keep: int = 2, serves: Checkpoints | None = None) -> None:
        self.folder = folder
        self.keep = keep
        self.serves = serves

    def of(self, step: int) -> Path:
        """The folder of a step's checkpoint, whether it exists or not."""
        return self.folder / f"step-{step:08d}"

    def all(self) -> list[Path]:
        """Every checkpoint, the oldest first."""
        return sorted(p for p in self.folder.glob("step-*") if p.is_dir() and "." not in p.name)

    def save(
        self,
        step: int,
        state: Mapping[str, Any],
        *,
        rank: int = 0,
        wait: Callable[[], None] = lambda: None,
    ) -> Path:
        """Write a state of plain values and tensors; earlier checkpoints stay until it is whole.

        Every process writes its own state; wait: a barrier between them.
        """
        final = self.of(step)
        temporary = final.with_name(f"{final.name}{NEW}")
        try:
            with _explained(final):
                self._write(final, temporary, state, rank, wait)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        return final

    def _write(
        self,
        final: Path,
        temporary: Path,
        state: Mapping[str, Any],
        rank: int,
        wait: Callable[[], None],
    ) -> None:
        if rank == 0:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
        wait()
        write_tensors(temporary / STATE.format(rank=rank), dict(state))
        wait()
        if rank == 0:
            sums = {path.name: checksum(path) for path in sorted(temporary.iterdir())}
            write_json(temporary / SUMS, sums)
            _replace(temporary, final)
            self.remove_after(final)
            self.prune()
        wait()

    def remove_after(self, newest: Path) -> None:
        """Remove later checkpoints: the run has gone back to this one."""
        for path in self.all():
            if path.name > newest.name:
                _remove(path)

    def prune(self) -> None:
        """Remove checkpoints that are not needed, and what a killed run left behind."""
        self.tidy()
        present = self.all()
        needed = {path.name for path in present[-self.keep :]}
        for other in self.serves.all() if self.serves is not None else ():
            needed |= {max((path.name for path in present if path.name <= other.name), default="")}
        for path in present:
            if path.name not in needed:
                _remove(path)

    def tidy(self) -> None:
        """Clean up after a killed run: a checkpoint whose replacement was not finished is put back."""
        for left in self.folder.glob(f"step-*{OLD}"):
            if not left.with_suffix("").exists():
                os.replace(left, left.with_suffix(""))
        for ending in (NEW, OLD, GONE):
            for left in self.folder.glob(f"step-*{ending}"):
                shutil.rmtree(left, ignore_errors=True)

    def newest(
        self,
        rank: int = 0,
        say: Callable[[str], None] = lambda sentence: None,
        accept: Callable[[dict[str, Any]], None] = lambda state: None,
        gather: Callable[[Any], list[Any]] = lambda found: [found],
    ) -> tuple[Path, dict[str, Any]] | None:
        """The newest checkpoint that can be read, with its state; None if there is none.

        say: called for each one that is skipped. accept: raises a `CheckpointError` for a state that
        cannot be used. gather: gives every process the values of all, so that they continue from the
        same checkpoint.
        """
        if rank == 0:
            self.tidy()
        for number, (path, state) in enumerate(self.latest(rank, accept, gather)):
            if isinstance(state, dict):
                if rank == 0 and number == 0:  # a kill may have come before older ones were removed
                    self.prune()
                return path, state
            say(f"The checkpoint {path.name} is skipped: {state}")
        return None

    def latest(
        self,
        rank: int = 0,
        accept: Callable[[dict[str, Any]], None] = lambda state: None,
        gather: Callable[[Any], list[Any]] = lambda found: [found],
    ) -> Iterator[tuple[Path, dict[str, Any] | CheckpointError]]:
        """Every checkpoint, the newest first, with its state or the first error of any process.

        One that was saved by another number of processes is refused.
        """
        listed = gather(self.all())
        for path in reversed(listed[0]):
            self._check_processes(path, len(listed))
            state, wrong = {}, None
            try:
                state = load(path, rank)
                accept(state)
            except CheckpointError as error:
                wrong = str(error)
            first = next((one for one in gather(wrong) if one is not None), None)
            yield path, state if first is None else CheckpointError(first)

    def _check_processes(self, path: Path, running: int) -> None:
        try:
            saved = sum(name.startswith("state-") for name in read_json(path / SUMS))
        except (OSError, ValueError, TypeError):
            return  # damaged: `load` raises the error
        if saved not in (0, running):
            raise RunFolderError(
                f"The run in {self.folder} was saved by {saved} process{'es' * (saved > 1)}, and "
                f"{running} run{'s' * (running == 1)} here: resume it with the same number, or choose "
                "another --out."
            )


def _remove(path: Path) -> None:
    """Remove a checkpoint in one step: a kill in the middle leaves none that cannot be read."""
    gone = path.with_name(f"{path.name}{GONE}")
    with suppress(OSError):
        os.replace(path, gone)
        shutil.rmtree(gone, ignore_errors=True)


def _replace(temporary: Path, final: Path) -> None:
    """Put a new folder in the place of an old one, if there is one; on failure the old one stays."""
    aside = final.with_name(f"{final.name}{OLD}")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        if final.exists():
            os.replace(final, aside)
        os.replace(temporary, final)
        sync_folder(final.parent)
    except BaseException:
        if aside.exists() and not final.exists():
            os.replace(aside, final)
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _explained(final: Path) -> Iterator[None]:
    """Turn the error of a full disk into one sentence."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        why = system_reason(error)
        if why is None:
            raise
        kept = "; the previous one is kept" if any(final.parent.glob("step-*[0-9]")) else ""
        raise RunFolderError(
            f"The checkpoint {final} cannot be written ({why}): make room and continue with "
            f"--resume{kept}."
        ) from error


@contextmanager
def fitting(path: Path) -> Iterator[None]:
    """Turn the errors of loading a state that does not fit into one sentence."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        why = " ".join(str(error).split())[:200].rstrip(".:")
        raise RunFolderError(
            f"The checkpoint {path} does not fit this run ({why}): give --resume the same "
            "configuration and data, or choose another --out."
        ) from error


def load(path: Path, rank: int = 0) -> dict[str, Any]:
    """The state in a checkpoint, its checksums checked; tensors and plain values only, never code."""
    check(path, rank)
    try:
        state: dict[str, Any] = read_tensors(path / STATE.format(rank=rank))
    except Exception as error:
        raise CheckpointError(f"{path} cannot be read: {error}.") from error
    return state


def random_state() -> dict[str, Any]:
    """The state of torch's global generators, to be saved with the state of a run."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"random": torch.get_rng_state(), "cuda_random": cuda}


def set_random_state(state: Mapping[str, Any]) -> None:
    """Restore the generators from what `random_state` saved."""
    torch.set_rng_state(state["random"])
    if torch.cuda.is_available() and state["cuda_random"]:
        torch.cuda.set_rng_state_all(state["cuda_random"])


def add_weights_of_all(path: Path, state: dict[str, Any]) -> None:
    """Add the weights and optimiser that the first process saved for all, if the state lacks them."""
    if not state["model"]:
        first = load(path)
        state |= {key: first[key] for key in ("model", "optimizer")}


def check(path: Path, rank: int = 0) -> None:
    """Compare the checksums of a checkpoint's files; an error if one differs or is missing."""
    try:
        sums = dict(read_json(path / SUMS))
        if STATE.format(rank=rank) not in sums:
            raise CheckpointError(f"{path / SUMS} is damaged (it lacks {STATE.format(rank=rank)}).")
        for name, expected in sums.items():
            if checksum(path / name) != expected:
                raise CheckpointError(f"{path / name} is damaged (its checksum differs).")
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}.") from error


def checksum(path: Path) -> int:
    """CRC-32 of a file."""
    total = 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            total = zlib.crc32(piece, total)
    return total
