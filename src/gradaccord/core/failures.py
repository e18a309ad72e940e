"""A process that fails says why, so that the others can report the reason."""

from __future__ import annotations

import torch.distributed as dist

# What the backends say in a plain RuntimeError when a peer's connection breaks, or is silent too long.
BROKEN = ("gloo", "nccl", "connection closed by peer", "connection reset", "process group")


class ProcessFailedError(RuntimeError):
    """Another process has failed; the message gives its reason."""

    def __init__(self, rank: int, world: int, why: str) -> None:
        super().__init__(f"Process {rank} of {world} failed: {why}")


def message_of(error: Exception) -> str:
    """An exception as it is sent to the other processes."""
    return " ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])


def is_broken(error: Exception) -> bool:
    """Whether this is a backend's error for a process that is gone or silent."""
    if not isinstance(error, RuntimeError) or isinstance(error, ProcessFailedError):
        return False
    text = str(error).lower()
    return isinstance(error, dist.DistError) or any(word in text for word in BROKEN)


def alone(error: Exception) -> Exception:
    """What to raise when a step fails where no collective can tell the other processes (FSDP2).

    There the others wait in a forward or backward pass. This process's own exception is left in the
    common store; one caused by another process is replaced by what that process left there.
    """
    store = dist.distributed_c10d._get_default_store()
    rank, world = dist.get_rank(), dist.get_world_size()
    if not is_broken(error):
        store.set(_key(rank), message_of(error))
        return error
    try:
        for other in range(world):
            if other != rank and store.check([_key(other)]):
                return ProcessFailedError(other, world, store.get(_key(other)).decode())
    except RuntimeError:  # the store was in the process that is gone
        pass
    return error


def take_back() -> None:
    """Remove what `alone` left: all processes failed in the same way, and go on."""
    dist.distributed_c10d._get_default_store().delete_key(_key(dist.get_rank()))


def _key(rank: int) -> str:
    return f"gradaccord/failed/{rank}"
