"""What a process has used so far: memory and processor time, as the system counts it."""

from __future__ import annotations

import sys
import time

import psutil
import torch


def peak_memory() -> float:
    """Peak memory in megabytes: of the GPU if there is one, else of this process."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    if sys.platform == "win32":
        return float(psutil.Process().memory_info().peak_wset) / 2**20
    import resource  # psutil knows the peak on Windows alone

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def cpu_seconds() -> float:
    """Processor time of this process, all threads."""
    return time.process_time()


def compute_seconds(device: torch.device) -> float:
    """A clock that counts only work: processor seconds of all threads; on a GPU, wall seconds."""
    if device.type == "cpu":
        return time.process_time()
    torch.accelerator.synchronize(device)
    return time.perf_counter()
