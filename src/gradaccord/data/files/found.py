"""A data set that was found: what the listing shows of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Found:
    """counts: the examples of each split. problem: why a split could not be counted."""

    name: str
    kind: str
    language: str
    counts: Mapping[str, int]
    labels: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    problem: str = ""
