"""A tensor that grows at its end, in memory while it is small and in a mapped file from then on."""

from __future__ import annotations

import mmap
import tempfile
from contextlib import suppress
from typing import IO, Any

import torch

from gradaccord.data.files.cache_folder import cache_folder

IN_MEMORY = 32 * 2**20  # bytes


class Growing:
    """`add` tensors of one type and of one shape but for their length, then take `tensor` once."""

    def __init__(self) -> None:
        self.length = 0
        self._dtype = torch.int64
        self._shape: tuple[int, ...] = (0,)
        self._buffer = bytearray()
        self._file: IO[bytes] | None = None

    def add(self, part: torch.Tensor) -> None:
        """Put rows at the end."""
        if not len(part):
            return
        if not self.length:
            self._dtype, self._shape = part.dtype, tuple(part.shape)
        if (part.dtype, part.shape[1:]) != (self._dtype, torch.Size(self._shape[1:])):
            raise ValueError(
                f"A part is {part.dtype} of the shape {tuple(part.shape)} after {self._dtype} of "
                f"{self._shape}: blocks of examples must be encoded alike."
            )
        self.length += len(part)
        self._buffer += as_bytes(part)
        if len(self._buffer) > IN_MEMORY:
            if self._file is None:
                self._file = _temporary_file()
            self._file.write(self._buffer)
            self._buffer.clear()

    @property
    def tensor(self) -> torch.Tensor:
        """All of it."""
        shape = (self.length, *self._shape[1:])
        if not self.length:
            return torch.empty(shape, dtype=self._dtype, device="cpu")
        if self._file is None:
            return torch.frombuffer(self._buffer, dtype=self._dtype).view(shape)
        self._file.write(self._buffer)
        self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_COPY)
        self._file.close()  # the mapping keeps it
        return torch.frombuffer(mapped, dtype=self._dtype).view(shape)


def as_bytes(tensor: torch.Tensor) -> memoryview:
    """What lies in a tensor's memory, not copied."""
    flat = tensor.contiguous().view(-1)
    if flat.stride(0) != 1:  # one number, which is contiguous whatever its stride
        flat = flat.clone(memory_format=torch.contiguous_format)
    array: Any = flat.view(torch.uint8).numpy()
    return memoryview(array)


def _temporary_file() -> IO[bytes]:
    """Where the result will lie, since a system's folder for temporary files may be in memory."""
    with suppress(OSError):
        return tempfile.TemporaryFile(dir=cache_folder())
    return tempfile.TemporaryFile()
