"""The files of a run folder: their names, their readers, and atomic writes."""

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

from gradaccord.data.files.text_files import check_text

CONFIG, LOG, RESULTS, ABOUT = "config.yaml", "log.jsonl", "results.json", "about.json"
MODEL = "model"  # the folder of the saved model


# Names that a run folder or Windows uses for something else, and names that are hidden or look like
# options.
TAKEN = re.compile(
    r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?|model|best|checkpoints|.*\.(json|jsonl|yaml|md|csv|html|db)"
    r"|[-. ].*|.*[. ]|",
    re.IGNORECASE,
)
LONGEST = 200  # bytes; file systems take 255


class DamagedFileError(ValueError):
    """A file that gradaccord wrote is damaged; the message is one sentence with the remedy."""


def damaged(path: Path, why: str, remedy: str = "repeat the command that wrote it") -> DamagedFileError:
    """The error about a damaged file."""
    return DamagedFileError(f"{path} is damaged ({why.rstrip('.')}): {remedy}.")


class RunFolderError(OSError):
    """A run folder that cannot be used; says why in one sentence."""

    def __str__(self) -> str:
        return str(self.args[0])


def folder_name(name: str) -> str:
    """A safe folder name for any name; one that is safe stays as it is, others end with a hash."""
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
        if system_reason(error) is None:
            raise
        raise not_written(path, error) from error
    sync_folder(path.parent)


FULL = (
    errno.ENOSPC,
    errno.EFBIG,
    getattr(errno, "EDQUOT", errno.ENOSPC),
)  # the disk, or the user's quota


def not_written(path: Path, error: BaseException, again: str = "repeat the command") -> RunFolderError:
    """The error about a file that cannot be written: the system's reason, and the remedy."""
    why = system_reason(error)
    full = why in [os.strerror(number) for number in FULL]
    remedy = f"make room, and {again}" if full else "choose another place"
    return RunFolderError(f"{path} cannot be written ({why}): {remedy}.")


def system_reason(error: BaseException | None) -> str | None:
    """The system's reason in an error or its causes: torch raises its own error after the system's."""
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
    """Write plain values as JSON, whole or not at all."""
    write_atomic(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def write_tensors(path: Path, state: Any) -> None:
    """Write tensors and plain values, whole or not at all."""
    write_atomic(path, lambda file: torch.save(state, file))


def read_json(path: Path) -> Any:
    """The values that `write_json` wrote; the only reader of our own JSON files."""
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text)
        if "\\ud" in text.lower():  # half of a surrogate pair cannot be encoded
            check_text(found)
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, too long or too deep
        raise damaged(path, str(error)) from error
    return found


def read_object(path: Path) -> dict[str, Any]:
    """The content of one of our JSON files that must hold an object."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise damaged(path, "it holds no JSON object")
    return content


def read_tensors(path: Path) -> Any:
    """The state that `write_tensors` wrote; tensors and plain values only, never code."""
    return torch.load(path, map_location="cpu", weights_only=True)
