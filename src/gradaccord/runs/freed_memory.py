"""Makes glibc keep freed memory for the next step, instead of returning it to the system."""

from __future__ import annotations

import ctypes
import os

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # as in malloc.h
LARGEST = 2**30  # bytes; larger tensors are still returned to the system when they are freed
SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Tell the C library to keep freed memory; returns whether it does.

    glibc returns large blocks to the system at once and gets them back page by page, each page filled
    with zeros: a tenth of a step of MiniLM, a quarter of one of pretraining in bf16. The process then
    stays as large as it was at its peak. Nothing is done where the user has set glibc's own variables,
    or where there is no glibc.
    """
    if any(name in os.environ for name in SETTINGS):
        return False
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # macOS, musl, Windows
        return False
    return bool(set_option(M_MMAP_THRESHOLD, LARGEST) and set_option(M_TRIM_THRESHOLD, 2**31 - 1))
