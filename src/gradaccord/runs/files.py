"""The files of a run folder: their names, and writes that are whole or absent."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

import torch

from gradaccord.data.files.bad_files import reason
from gradaccord.data.files.text_files import check_text

CONFIG, LOG, RESULTS, ABOUT = "config.yaml", "log.jsonl", "results.json", "about.json"
MODEL = "model"  # the folder of the saved model
AGAIN = "run the command that wrote it again"  # the remedy of a damaged file


# Names that a run folder or Windows has for something else, and names that are hidden or options.
TAKEN = re.compile(
    r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?|model|best|checkpoints|.*\.(json|jsonl|yaml|md|csv|html|db)"
    r"|[-. ].*|.*[. ]|",
    re.IGNORECASE,
)
LONGEST = 200  # bytes; file systems take 255


class RunFolderError(OSError):
    """A run folder that cannot be used; says why in one sentence."""

    def __str__(self) -> str:
        return str(self.args[0])


def folder_name(name: str) -> str:
    """Any name as that of one folder inside another; a safe name stays, others end with a hash."""
    safe = re.sub(r"[^\w .=+@-]", "_", name)
    if safe == name and len(name.encode()) <= LONGEST and not TAKEN.fullmatch(name):
        return name
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{safe.strip('-. ')[:40] or 'unnamed'}-{digest}"


def write_atomic(path: Path, content: bytes | str | Callable[[IO[bytes]], object]) -> None:
    """Write a file through to the disk, then put it in place: a crash leaves the old one or the new.

    content: the bytes, the text, or a function that writes to an open file.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        why = system_reason(error)
        if why is None:
            raise
        raise RunFolderError(
            f"{path} cannot be written ({why}): make room, and repeat the command."
            if why == os.strerror(errno.ENOSPC)
            else f"{path} cannot be written ({why}): choose another place."
        ) from error
    sync_folder(path.parent)


def system_reason(error: BaseException | None) -> str | None:
    """What the system said, in an error or behind it: torch raises its own after the system's."""
    while error is not None and not (isinstance(error, OSError) and error.strerror):
        error = error.__cause__ or error.__context__
    return None if error is None else str(error.strerror)


def sync_folder(folder: Path) -> None:
    """Write a folder's entries through to the disk, where the system can."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def write_json(path: Path, content: Any) -> None:
    """Write plain values, whole or not at all."""
    write_atomic(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def write_tensors(path: Path, state: Any) -> None:
    """Write tensors and plain values, whole or not at all."""
    write_atomic(path, lambda file: torch.save(state, file))


def read_json(path: Path) -> Any:
    """What `write_json` wrote; what is no JSON text is refused."""
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text)
        if "\\ud" in text:
            check_text(found)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({reason(error)}): {AGAIN}.") from error
    return found


def read_tensors(path: Path) -> Any:
    """What `write_tensors` wrote; tensors and plain values only, never code."""
    return torch.load(path, map_location="cpu", weights_only=True)
