"""How much memory training takes, as the system counts it."""

from __future__ import annotations

import resource
import sys

import torch


def peak_memory() -> float:
    """Megabytes: of the GPU if there is one, else the most that this process has held."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
