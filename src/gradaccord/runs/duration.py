"""Durations in a readable form."""

from __future__ import annotations

import math


def duration(seconds: float) -> str:
    """A duration as 1:05 or 1:02:05."""
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
