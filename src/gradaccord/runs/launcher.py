"""A warning if fewer processes run together than a launcher was told to start."""

from __future__ import annotations

import os


def fewer_than_asked(running: int) -> str | None:
    """A warning if a launcher was told to start more processes than run together; else None.

    `accelerate launch --num_processes N --cpu` starts one process whatever N is: it only sets the
    address at which several would meet.
    """
    world = int(os.environ.get("WORLD_SIZE", "1") or 1)
    if world > running:
        return (
            f"WORLD_SIZE asks for {world} processes, and {running} runs here: start them with "
            f"torchrun --nproc-per-node {world}."
        )
    by_accelerate = "ACCELERATE_MIXED_PRECISION" in os.environ and "MASTER_ADDR" in os.environ
    if by_accelerate and "WORLD_SIZE" not in os.environ and running == 1:
        return (
            "accelerate launch was asked for several processes and started 1, as it does on a CPU: "
            "start them with torchrun --nproc-per-node N."
        )
    return None
