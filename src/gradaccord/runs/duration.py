"""Seconds as a person reads them."""

from __future__ import annotations

import math


def duration(seconds: float) -> str:
    """1:05, or 1:02:05."""
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
