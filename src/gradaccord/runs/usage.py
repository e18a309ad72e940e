"""What a process has used so far: memory and processor time, as the system counts it."""

from __future__ import annotations

import sys
import time

import psutil
import torch


def peak_memory() -> float:
    """Megabytes: of the GPU if there is one, else the most that this process has held."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    if sys.platform == "win32":
        return float(psutil.Process().memory_info().peak_wset) / 2**20
    import resource  # psutil knows the peak on Windows alone

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def cpu_seconds() -> float:
    """Of this process, all threads."""
    return time.process_time()


def compute_seconds(device: torch.device) -> float:
    """A clock that counts work alone: processor seconds of all threads, on a GPU its wall seconds."""
    if device.type == "cpu":
        return time.process_time()
    torch.accelerator.synchronize(device)
    return time.perf_counter()
