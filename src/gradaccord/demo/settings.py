"""What the demo runs: which methods, how often, how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import gradaccord

METHODS: dict[str, Callable[..., gradaccord.Method]] = {
    "sum": gradaccord.Sum,
    "pcgrad": gradaccord.PCGrad,
    "gradvac": partial(gradaccord.GradVac, granularity="layer"),
    "gradnorm": partial(gradaccord.GradNorm, alpha=0.12),  # languages are similar tasks
}
BASELINE = "sum"


@dataclass(frozen=True)
class Settings:
    """What is run. The baseline is always among the methods, and first."""

    seeds: int = 3
    steps: int = 160
    methods: tuple[str, ...] = tuple(METHODS)
    languages_per_step: int = 6
    batch: int = 12
    lr: float = 5e-3

    def __post_init__(self) -> None:
        for name in self.methods:
            if name not in METHODS:
                raise ValueError(f"There is no method {name!r}: choose from {', '.join(METHODS)}.")
        for name in ("seeds", "steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` is {getattr(self, name)}: it must be at least 1.")
        chosen = dict.fromkeys((BASELINE, *self.methods))
        object.__setattr__(self, "methods", tuple(chosen))
