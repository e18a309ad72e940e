"""Tensors that took seconds to make, kept on disk so that the next start is instant.

The folder is `$GRADACCORD_CACHE`, or `~/.cache/gradaccord` (`cache_folder`). A file's name is a hash
of everything its content depends on, so that a changed source makes a new file and nothing is ever out
of date. Files are mapped into memory, not read: what is not looked at takes none. One process makes a
file and the others wait for it; a file appears whole or not at all. A folder that cannot be written to,
or a file that was cut off, only costs the time to make the tensors again.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import torch
from filelock import FileLock, Timeout

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.data.files.bad_files import writing
from gradaccord.data.files.cache_folder import ENDING, UNFINISHED, cache_folder, prune
from gradaccord.data.files.growing import as_bytes

Tensors = Mapping[str, torch.Tensor]
# What is kept: named tensors, and short texts beside them.
Kept = tuple[dict[str, torch.Tensor], dict[str, str]]

_DTYPES = {
    torch.float64: "F64", torch.int64: "I64", torch.float32: "F32", torch.int32: "I32",
    torch.float16: "F16", torch.bfloat16: "BF16", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip


def cached(
    kind: str, depends_on: str, make: Callable[[], Kept], *, what: str = "", watch: Watch = NOBODY
) -> Kept:
    """What `make` returned when it was last called with the same `depends_on`, or a new call of it.

    kind: begins the file's name. depends_on: everything that the tensors depend on, as text. what: the
    tensors are, for people. watch: shows if this process waits for another one that makes them.
    """
    require_safetensors()
    digest = blake2b(depends_on.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
    path = cache_folder() / f"{kind}-{digest}{ENDING}"
    found = _read(path)
    if found is not None:
        return found
    with _alone(path, what or kind, watch):
        found = _read(path)  # the one that was waited for has made it
        if found is not None:
            return found
        tensors, texts = make()
        try:
            _write(path, tensors, {**texts, "what": what})
        except OSError:  # no room, or no right to write: the tensors are there all the same
            return tensors, texts
        prune(keep=path)
    return _read(path) or (tensors, texts)


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
            "The cache needs the package safetensors: pip install safetensors.",
            name="safetensors",
        ) from error


@contextmanager
def _alone(path: Path, what: str, watch: Watch) -> Iterator[None]:
    """One process at a time; the operating system drops the lock of one that dies."""
    lock = FileLock(path.with_suffix(".lock"))
    # Of a folder that cannot be written to or knows no locks: each makes its own.
    with suppress(OSError, NotImplementedError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            watch.say(f"Another process is preparing {what}: waiting for it.")
            while not lock.is_locked:
                watch.at(f"waiting for another process: {what}", 0, 0)
                with suppress(Timeout):
                    lock.acquire(timeout=1.0)
    try:
        yield
    finally:
        if lock.is_locked:
            with suppress(OSError):  # one who comes between makes the same file again, whole
                Path(lock.lock_file).unlink(missing_ok=True)
            lock.release()


def _read(path: Path) -> Kept | None:
    """The tensors, mapped: pages are read when they are looked at."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            texts = dict(file.metadata() or {})
    except (OSError, SafetensorError):
        return None
    texts.pop("what", None)
    with suppress(OSError):
        os.utime(path)  # when it was last used
    return tensors, texts


def _write(path: Path, tensors: Tensors, texts: Mapping[str, str]) -> None:
    """A safetensors file, written without a copy of the tensors in memory."""
    with writing(path, "make room, or set GRADACCORD_CACHE to another folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=UNFINISHED)
        try:
            with os.fdopen(handle, "wb") as file:
                _write_tensors(file, tensors, texts)
            os.replace(name, path)  # another process sees a whole file or none
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _write_tensors(file: BinaryIO, tensors: Tensors, texts: Mapping[str, str]) -> None:
    # The widest numbers first, so that each tensor begins at a multiple of their width.
    ordered = sorted(tensors.items(), key=lambda item: -item[1].element_size())
    header: dict[str, object] = {"__metadata__": dict(texts)}
    end = 0
    for key, tensor in ordered:
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[key] = {
            "dtype": _DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    about = json.dumps(header).encode()
    about += b" " * (-len(about) % 8)
    file.write(len(about).to_bytes(8, "little") + about)
    for _, tensor in ordered:
        if tensor.numel():
            file.write(as_bytes(tensor))
