"""Tensors that took seconds to make, kept on disk so that the next start is instant.

The folder is `$GRADACCORD_CACHE`, or `~/.cache/gradaccord`. A file's name is a hash of everything its
content depends on, so that a changed source makes a new file and nothing is ever out of date. A
folder that cannot be written to, or a file that was cut off, only costs the time to make the tensors
again.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import torch

from gradaccord.data.files.bad_files import writing

Tensors = Mapping[str, torch.Tensor]
# What is kept: named tensors, and short texts beside them.
Kept = tuple[dict[str, torch.Tensor], dict[str, str]]


def cache_folder() -> Path:
    """Where the files are kept; the environment variable GRADACCORD_CACHE moves it."""
    chosen = os.environ.get("GRADACCORD_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "gradaccord"


def cached(kind: str, depends_on: str, make: Callable[[], Kept]) -> Kept:
    """What `make` returned when it was last called with the same `depends_on`, or a new call of it.

    kind: begins the file's name. depends_on: everything that the tensors depend on, as text.
    """
    require_safetensors()
    digest = blake2b(depends_on.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
    path = cache_folder() / f"{kind}-{digest}.safetensors"
    kept = _read(path)
    if kept is None:
        kept = make()
        with suppress(OSError):  # no room, or no right to write: the tensors are there all the same
            _write(path, *kept)
    return kept


def fingerprint(path: Path) -> str:
    """Name, size and time of a file, or of every file below a folder: changes when the content does."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    entries = ((file, file.stat()) for file in files)
    return "\n".join(f"{file.resolve()} {stat.st_size} {stat.st_mtime_ns}" for file, stat in entries)


def require_safetensors() -> None:
    """Raise, with the remedy, if the package is missing."""
    try:
        import safetensors  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Decoded images are kept with the package safetensors: pip install safetensors.",
            name="safetensors",
        ) from error


def _read(path: Path) -> Kept | None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, dict(file.metadata() or {})
    except (OSError, SafetensorError):
        return None


def _write(path: Path, tensors: Tensors, texts: Mapping[str, str]) -> None:
    from safetensors.torch import save_file

    with writing(path, "make room, or set GRADACCORD_CACHE to another folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        os.close(handle)
        try:
            save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, name, dict(texts))
            os.replace(name, path)  # another process sees a whole file or none
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
