"""The folder of kept tensors (`tensor_cache`): what is in it, how much it may hold, and emptying it.

It is `$GRADACCORD_CACHE`, or `~/.cache/gradaccord`. The least recently used files are removed once all
together exceed the limit.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LIMIT = 20 * 10**9  # bytes, where none was set
ENDING = ".safetensors"
UNFINISHED = ".part"
_LIMIT_FILE = "limit"
_ABANDONED = 24 * 3600.0  # seconds after which an unfinished file has no owner


def cache_folder() -> Path:
    """Where the files are kept; the environment variable GRADACCORD_CACHE moves it."""
    chosen = os.environ.get("GRADACCORD_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "gradaccord"


@dataclass(frozen=True)
class Entry:
    """A file of the cache. used: the time of its last use, in seconds since 1970."""

    path: Path
    size: int
    used: float

    @property
    def kind(self) -> str:
        """What begins the file's name."""
        return self.path.name.rpartition("-")[0]

    @property
    def what(self) -> str:
        """What is in it, if that is known."""
        from safetensors import SafetensorError, safe_open

        with suppress(OSError, SafetensorError), safe_open(str(self.path), "pt") as file:
            return str((file.metadata() or {}).get("what", ""))
        return ""


def entries() -> list[Entry]:
    """All files of the cache, the one that was used last first; unfinished ones are left out."""
    found = []
    for path in cache_folder().glob(f"*{ENDING}"):
        with suppress(OSError):  # removed meanwhile
            stat = path.stat()
            found.append(Entry(path, stat.st_size, stat.st_mtime))
    return sorted(found, key=lambda entry: -entry.used)


def cache_limit() -> int:
    """How many bytes the files may take together."""
    try:
        return int((cache_folder() / _LIMIT_FILE).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return LIMIT


def set_cache_limit(size: int) -> None:
    """Keep the limit in the folder, and remove what is above it."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    (cache_folder() / _LIMIT_FILE).write_text(f"{size}\n", encoding="ascii")
    prune()


def prune(keep: Path | None = None) -> list[Entry]:
    """Remove the least recently used files until the rest fits the limit. keep: is never removed.

    A process that has mapped a file goes on with it.
    """
    limit, total, removed = cache_limit(), 0, []
    for entry in sorted(entries(), key=lambda entry: entry.path != keep):
        total += entry.size
        if total > limit and entry.path != keep:
            total -= entry.size
            removed += _remove(entry)
    for path in cache_folder().glob(f"*{UNFINISHED}"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED:
                path.unlink()
    return removed


def clear() -> list[Entry]:
    """Remove all files."""
    return [gone for entry in entries() for gone in _remove(entry)]


def _remove(entry: Entry) -> list[Entry]:
    try:
        entry.path.unlink()
    except OSError:  # another process removed it, or holds it on a system that does not allow this
        return []
    return [entry]
