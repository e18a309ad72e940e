"""Several processes of one run: what each has found told to all, and one sentence if one ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

# What the backends say in a plain RuntimeError when a peer's connection breaks.
BROKEN = ("gloo", "nccl", "connection closed by peer", "connection reset", "process group")


class ProcessLostError(RuntimeError):
    """Another process of the run has ended."""


def gathered(accelerator: Any, value: T) -> list[T]:
    """The value of every process, in all of them."""
    if accelerator.num_processes == 1:
        return [value]
    from accelerate.utils import gather_object

    return list(gather_object([value]))


@contextmanager
def others_alive(accelerator: Any) -> Iterator[None]:
    """Turn the error by which a backend tells that another process is gone into one sentence."""
    try:
        yield
    except RuntimeError as error:
        if accelerator.num_processes == 1 or not _broken(error):
            raise
        raise ProcessLostError(
            "Another process of this run has ended, and this one with it: see what that one said, "
            "and go on with --resume."
        ) from error


def _broken(error: RuntimeError) -> bool:
    from torch.distributed import DistError

    text = str(error).lower()
    return isinstance(error, DistError) or any(word in text for word in BROKEN)
